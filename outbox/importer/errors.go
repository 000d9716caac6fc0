package importer

import (
	"errors"
	"fmt"
)

var (
	// ErrConfig is wrapped by every complaint of Config.Validate.
	ErrConfig = errors.New("importer configuration")
	// ErrInput is wrapped by every complaint about the content of a file.
	ErrInput = errors.New("bad input")
	// ErrVersion means that an event does not continue its stream. The file leaves versions out, or somebody else writes to the stream.
	ErrVersion = errors.New("event does not continue its stream")
	// ErrUnknownOutcome means that the connection broke inside a COMMIT.
	ErrUnknownOutcome = errors.New("whether the transaction is committed is unknown; run the import again to settle it")
)

// LineError is an error at one line of a file.
type LineError struct {
	File string
	Line int // from 1
	Err  error
}

// Error begins with file:line, as compilers do.
func (e *LineError) Error() string { return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err) }

// Unwrap returns the error without its place.
func (e *LineError) Unwrap() error { return e.Err }

func inputError(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInput, fmt.Errorf(format, args...))
}
