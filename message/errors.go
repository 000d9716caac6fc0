package message

import (
	"errors"
	"fmt"
)

// ErrMalformed means that a message lacks a header, or that one cannot be read; the text names it. Coming again does not mend it.
var ErrMalformed = errors.New("malformed message")

// MalformedError names the fault of a message. It is an ErrMalformed.
type MalformedError struct {
	// Subject and Sequence locate the message in the stream; empty and 0 where unknown.
	Subject  string
	Sequence uint64
	// Header is the header's name.
	Header string
	// Reason states the rule.
	Reason string
}

// Error implements error.
func (e *MalformedError) Error() string {
	return fmt.Sprintf("%s: header %s %s (subject %q, stream sequence %d)", ErrMalformed, e.Header, e.Reason, e.Subject, e.Sequence)
}

// Unwrap makes errors.Is(err, ErrMalformed) true.
func (e *MalformedError) Unwrap() error { return ErrMalformed }
