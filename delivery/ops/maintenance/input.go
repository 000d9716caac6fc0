package maintenance

import "fmt"

// InputError is a complaint about one input of an operator. Nothing was changed.
type InputError struct {
	// Field names the input.
	Field string
	// Problem says what is wrong, to be put after the field's name.
	Problem string
	// Sequences are the messages that were refused, where it was about them.
	Sequences []int64
	// Err is the kind of refusal, where the caller tells several apart, or nil.
	Err error
}

func (e *InputError) Error() string { return e.Field + ": " + e.Problem }

// Unwrap returns Err.
func (e *InputError) Unwrap() error { return e.Err }

// Refuse returns an InputError with that problem.
func Refuse(field, format string, args ...any) error {
	return &InputError{Field: field, Problem: fmt.Sprintf(format, args...)}
}
