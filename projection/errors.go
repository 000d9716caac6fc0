package projection

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/closed"
	"github.com/postrider/postrider/internal/pg"
)

// Errors to branch on.
var (
	// ErrConfig: a Config breaks a rule; the text names the field.
	ErrConfig = errors.New("projection config")
	// ErrMode: the mode does not allow the call.
	ErrMode = errors.New("projection mode")
	// ErrNotDead: a stream that was to be requeued is not dead, or not known.
	ErrNotDead = errors.New("the stream is not dead")
	// ErrHole: the journal lacks a version between two that it has.
	ErrHole = errors.New("the journal has a hole")
	// ErrDropped: events that were never applied were dropped. See Config.FromKept.
	ErrDropped = errors.New("the journal has lost the beginning of streams that were not applied: import the archive and project that, or set FromKept")
	// ErrClosed: the NATS client has given its connection up, or the pool was closed. Only a new one helps.
	ErrClosed = closed.Err
	// ErrDiverged: another event than the applied one lies at the watermark: the database forgot published events.
	ErrDiverged = errors.New("the journal is another one than was applied")
)

// errLost: the stream has another owner by now.
var errLost = errors.New("the stream has another owner")

// permanentError marks an error that no retry can heal.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// Permanent marks an error of Apply that no retry can heal: the stream's head is dead at once. nil stays nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanentError{err}
}

func permanent(err error) bool {
	var p permanentError
	return errors.As(err, &p) || errors.Is(err, ErrDiverged)
}

// eventError is a failure of one event.
type eventError struct {
	stream  string
	version int64
	place   int // among the events of its batch
	cause   error
}

func (e *eventError) Error() string {
	return fmt.Sprintf("stream %q version %d: %v", e.stream, e.version, e.cause)
}

func (e *eventError) Unwrap() error { return e.cause }

// outage reports whether an error says something about the database rather than about the event being applied: no attempt is counted for it.
func outage(err error, closed bool) bool {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return false // the event had the whole of its time
	case pg.Refused(err, ""):
		return pg.Refused(err, "08", "40", "53", "57P", "58", "25P03", "25P04", "55P03")
	case errors.Is(err, context.Canceled):
		return true
	}
	return closed || pgconn.SafeToRetry(err)
}
