package maintenance

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// InputError is a complaint about one input of an operator. Nothing was changed.
type InputError struct {
	// Field names the input.
	Field string
	// Problem names the defect, to be put after the field's name.
	Problem string
	// Sequences are the refused messages, if the refusal concerns messages.
	Sequences []int64
	// Err is the kind of refusal, where the caller distinguishes several, or nil.
	Err error
}

func (e *InputError) Error() string { return e.Field + ": " + e.Problem }

// Unwrap returns Err.
func (e *InputError) Unwrap() error { return e.Err }

// Refuse returns an InputError with that problem.
func Refuse(field, format string, args ...any) error {
	return &InputError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

// Limits of texts for the audit, in characters.
const (
	actorLimit  = 200
	reasonLimit = 2000
)

// CheckWords refuses, as actor or reason, words that are missing or longer than the audit takes.
func CheckWords(actor, reason string, reasonRequired bool) error {
	for _, w := range []struct {
		field, text string
		limit       int
		required    bool
	}{
		{"actor", actor, actorLimit, true},
		{"reason", reason, reasonLimit, reasonRequired},
	} {
		if w.required && strings.TrimSpace(w.text) == "" {
			return Refuse(w.field, "is required; it is written to the audit")
		}
		if err := checkWord(w.field, w.text, w.limit); err != nil {
			return err
		}
	}
	return nil
}

// CheckActor refuses an actor that the audit does not take; it may be empty.
func CheckActor(actor string) error { return checkWord("actor", actor, actorLimit) }

func checkWord(field, text string, limit int) error {
	if n := utf8.RuneCountInString(text); n > limit {
		return Refuse(field, "must have at most %d characters, got %d", limit, n)
	}
	return CheckText(field, text)
}

// CheckText refuses texts that PostgreSQL cannot hold.
func CheckText(field, text string) error {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return Refuse(field, "must be UTF-8 without zero bytes")
	}
	return nil
}
