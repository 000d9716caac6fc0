package faultproxy

import (
	"strings"
	"unicode"
)

// control is a statement's effect on the transaction.
type control int

const (
	controlNone control = iota
	controlBegin
	controlCommit
	controlRollback // ends it without a commit, PREPARE TRANSACTION included
)

// controlOf looks at the first words of a statement.
func controlOf(sql string) control {
	words := firstWords(sql, 3)
	switch words[0] {
	case "begin":
		return controlBegin
	case "start":
		if words[1] == "transaction" {
			return controlBegin
		}
	case "commit", "end":
		if words[1] != "prepared" { // that commits another transaction
			return controlCommit
		}
	case "rollback", "abort":
		if words[1] != "prepared" && words[1] != "to" && words[2] != "to" {
			return controlRollback
		}
	case "prepare":
		if words[1] == "transaction" {
			return controlRollback
		}
	}
	return controlNone
}

// firstWords returns the first n words in lower case, "" for those that are missing.
func firstWords(sql string, n int) []string {
	words := make([]string, 0, n)
	for i := 0; i < len(sql) && len(words) < n; {
		if end := skipComment(sql, i); end > i {
			i = end
			continue
		}
		end := i
		for end < len(sql) && isWord(sql[end]) {
			end++
		}
		if end > i {
			words = append(words, strings.ToLower(sql[i:end]))
			i = end
			continue
		}
		if !unicode.IsSpace(rune(sql[i])) {
			break
		}
		i++
	}
	return append(words, make([]string, n-len(words))...)
}

// splitSQL splits a text at the semicolons that end statements.
func splitSQL(text string) []string {
	var parts []string
	start := 0
	for i := 0; i < len(text); {
		if text[i] == ';' {
			parts = appendStatement(parts, text[start:i])
			i++
			start = i
			continue
		}
		i = skipToken(text, i)
	}
	return appendStatement(parts, text[start:])
}

func appendStatement(parts []string, sql string) []string {
	if sql = strings.TrimSpace(sql); sql == "" {
		return parts
	}
	return append(parts, sql)
}

// skipToken returns the start of the next token.
func skipToken(text string, i int) int {
	if end := skipComment(text, i); end > i {
		return end
	}
	switch c := text[i]; {
	case c == '\'' || c == '"':
		return skipQuoted(text, i, false)
	case (c == 'e' || c == 'E') && i+1 < len(text) && text[i+1] == '\'':
		return skipQuoted(text, i+1, true)
	case c == '$':
		return skipDollar(text, i)
	case isWord(c):
		for i < len(text) && (isWord(text[i]) || text[i] == '$') {
			i++
		}
		return i
	}
	return i + 1
}

// skipComment returns i when no comment begins there. Comments of the second kind can be nested.
func skipComment(text string, i int) int {
	switch rest := text[i:]; {
	case strings.HasPrefix(rest, "--"):
		if end := strings.IndexByte(rest, '\n'); end >= 0 {
			return i + end + 1
		}
		return len(text)
	case strings.HasPrefix(rest, "/*"):
		depth := 0
		for ; i < len(text); i++ {
			switch {
			case strings.HasPrefix(text[i:], "/*"):
				depth++
				i++
			case strings.HasPrefix(text[i:], "*/"):
				depth--
				i++
			}
			if depth == 0 {
				return i + 1
			}
		}
	}
	return i
}

// skipQuoted starts at a quote. A doubled one does not end it: it ends and begins again.
func skipQuoted(text string, i int, backslash bool) int {
	quote := text[i]
	for i++; i < len(text); i++ {
		switch {
		case text[i] == quote:
			return i + 1
		case backslash && text[i] == '\\':
			i++
		}
	}
	return len(text)
}

// skipDollar starts at a dollar sign: of a quoted string, or of a parameter such as $1.
func skipDollar(text string, i int) int {
	end := i + 1
	for end < len(text) && isWord(text[end]) {
		end++
	}
	if end == len(text) || text[end] != '$' || end > i+1 && text[i+1] >= '0' && text[i+1] <= '9' {
		return end
	}
	tag := text[i : end+1]
	if closing := strings.Index(text[end+1:], tag); closing >= 0 {
		return end + 1 + closing + len(tag)
	}
	return len(text)
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}
