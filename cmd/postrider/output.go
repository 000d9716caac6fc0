package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"
)

// writeJSON prints one value on one line.
func writeJSON(w io.Writer, value any) error {
	if err := json.NewEncoder(w).Encode(value); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// writeTable prints rows under a header, in the width of a terminal. Texts of the database cannot steer the terminal.
func writeTable(w io.Writer, header table.Row, rows []table.Row) {
	width := 0 // unlimited for pipes, files and --wide
	if _, full := w.(fullWidth); !full && isTerminal(w) {
		width, _ = terminalSize(w)
	}
	fmt.Fprint(w, fitTable(width, header, rows))
}

func answer(w io.Writer, asJSON bool, value any, text string) error {
	if asJSON {
		return writeJSON(w, value)
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

func answerRows(w io.Writer, asJSON bool, value any, header table.Row, rows []table.Row) error {
	if asJSON {
		return writeJSON(w, value)
	}
	writeTable(w, header, rows)
	return nil
}

// visibleWriter escapes hidden characters beyond ASCII, as JSON does: they may change how the rest reads. printable escapes those of ASCII,
// since the program's own lines steer terminals by them.
type visibleWriter struct{ to io.Writer }

func (v visibleWriter) Write(p []byte) (int, error) {
	shown := p
	if i := bytes.IndexFunc(p, hidden); i >= 0 {
		shown = bytes.Clone(p[:i])
		for rest := p[i:]; len(rest) > 0; {
			r, size := utf8.DecodeRune(rest)
			if hidden(r) {
				for _, unit := range utf16.Encode([]rune{r}) {
					shown = fmt.Appendf(shown, `\u%04x`, unit)
				}
			} else {
				shown = append(shown, rest[:size]...)
			}
			rest = rest[size:]
		}
	}
	if _, err := v.to.Write(shown); err != nil {
		return 0, err
	}
	return len(p), nil
}

// hidden reports whether a character beyond ASCII is invisible: one that turns the direction of writing, a blank, a control.
func hidden(r rune) bool {
	return r >= utf8.RuneSelf && (!unicode.IsGraphic(r) || unicode.Is(unicode.Zs, r))
}

// statusLine is a line that a terminal overwrites; elsewhere each text has a line of its own.
type statusLine struct {
	out      io.Writer
	terminal bool
	open     bool
}

func newStatusLine(out io.Writer) statusLine { return statusLine{out: out, terminal: isTerminal(out)} }

func (l *statusLine) write(text string) {
	if !l.terminal {
		fmt.Fprintln(l.out, text)
		return
	}
	fmt.Fprint(l.out, "\r\x1b[K"+text)
	l.open = true
}

// end keeps the last text.
func (l *statusLine) end() {
	if l.open {
		fmt.Fprintln(l.out)
		l.open = false
	}
}

// clear removes the last text.
func (l *statusLine) clear() {
	if l.open {
		fmt.Fprint(l.out, "\r\x1b[K")
		l.open = false
	}
}

// passingLine shows a command's progress on one line of a terminal, from some time on; the end clears it. Elsewhere nothing is
// written.
type passingLine struct {
	statusLine
	began time.Time
}

func (p *passingLine) show(format string, args ...any) {
	if p.began.IsZero() {
		p.began = time.Now()
	}
	if p.terminal && time.Since(p.began) >= time.Second {
		p.write(fmt.Sprintf(format, args...))
	}
}
