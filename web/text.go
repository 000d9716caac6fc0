package web

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Segment is a run of text, or one character that is shown as its escape.
type Segment struct {
	Text string
	// Escape is set for a character that is invisible or changes how others read, for instance U+202E.
	Escape string
}

// Visible splits text into plain and escaped segments, so that no character hides, reorders or imitates its neighbours. Line breaks and
// tabs stay when block is set.
func Visible(text string, block bool) []Segment {
	var list []Segment
	start := 0
	for i, r := range text {
		size := utf8.RuneLen(r)
		escape := ""
		switch {
		case r == utf8.RuneError:
			if _, width := utf8.DecodeRuneInString(text[i:]); width == 1 {
				size, escape = 1, fmt.Sprintf(`\x%02X`, text[i])
			}
		case block && (r == '\n' || r == '\t'):
		case deceives(r):
			escape = escapeOf(r)
		}
		if escape == "" {
			continue
		}
		if start < i {
			list = append(list, Segment{Text: text[start:i]})
		}
		list = append(list, Segment{Escape: escape})
		start = i + size
	}
	if start < len(text) {
		list = append(list, Segment{Text: text[start:]})
	}
	return list
}

// deceives reports whether a character is invisible: control and format characters (also those that change the direction of writing), line
// separators, spaces other than the plain one, fillers, private and unassigned ones.
func deceives(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' || r == 0x7f
	}
	switch r {
	case 0x034f, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x2800, 0x3164, 0xffa0: // blank, but letters, marks or symbols
		return true
	}
	return !unicode.IsGraphic(r) || unicode.Is(unicode.Zs, r) || unicode.Is(unicode.Variation_Selector, r)
}

func escapeOf(r rune) string {
	switch r {
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	}
	return fmt.Sprintf("U+%04X", r)
}

// Plain returns text for places without markup, such as titles: escapes of Visible stand between angle quotes.
func Plain(text string) string {
	var b strings.Builder
	for _, s := range Visible(text, false) {
		if s.Escape != "" {
			b.WriteString("‹" + s.Escape + "›")
		} else {
			b.WriteString(s.Text)
		}
	}
	return b.String()
}

// Limits of texts in lists, in characters.
const (
	cutShort = 60
	cutLong  = 160
)

// cut shortens text to limit characters, with a sign that it did.
func cut(limit int, text string) string {
	count := 0
	for i := range text {
		if count == limit {
			return text[:i] + "…"
		}
		count++
	}
	return text
}
