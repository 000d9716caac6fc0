package outbox

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// Errors to branch on.
var (
	// ErrConfig: a Config breaks a rule; the text names the field.
	ErrConfig = errors.New("outbox config")
	// ErrInvalidEvent: an event breaks a rule; see InvalidEventError for the field.
	ErrInvalidEvent = errors.New("invalid event")
	// ErrPayloadTooLarge: a payload is larger than the producer or the database allows.
	ErrPayloadTooLarge = errors.New("payload too large")
	// ErrVersionConflict: the stream has another version than was expected, or
	// somebody else wrote that version first; see VersionConflictError.
	ErrVersionConflict = errors.New("stream version conflict")
	// ErrDuplicateEvent: an event with this ID exists.
	ErrDuplicateEvent = errors.New("event id exists")
)

// InvalidEventError names what is wrong with an event. It is an ErrInvalidEvent.
type InvalidEventError struct {
	// Index is the event's place among the arguments.
	Index int
	// Field is the field of Event, for example "StreamID" or "Metadata.Headers".
	Field string
	// Reason says what the rule is.
	Reason string
}

// Error implements error. It never contains the field's value.
func (e *InvalidEventError) Error() string {
	return fmt.Sprintf("%s %d: %s %s", ErrInvalidEvent, e.Index, e.Field, e.Reason)
}

// Unwrap makes errors.Is(err, ErrInvalidEvent) true.
func (e *InvalidEventError) Unwrap() error { return ErrInvalidEvent }

// VersionConflictError tells the versions. It is an ErrVersionConflict.
type VersionConflictError struct {
	Stream   string `json:"stream"`
	Expected int64  `json:"expected"`
	Actual   int64  `json:"actual"`
	cause    error
}

// Error implements error.
func (e *VersionConflictError) Error() string {
	return fmt.Sprintf("%s: stream %q is at version %d, expected %d", ErrVersionConflict, e.Stream, e.Actual, e.Expected)
}

// Unwrap gives ErrVersionConflict and the database's error.
func (e *VersionConflictError) Unwrap() []error { return []error{ErrVersionConflict, e.cause} }

// classify puts the sentinel in front of what the SQL functions answered.
func classify(err error) error {
	var answer *pgconn.PgError
	if !errors.As(err, &answer) {
		return err
	}
	switch {
	case answer.Code == "OB001":
		conflict := &VersionConflictError{cause: err}
		if json.Unmarshal([]byte(answer.Detail), conflict) != nil {
			return fmt.Errorf("%w: %w", ErrVersionConflict, err)
		}
		return conflict
	case answer.Code == "23505" && answer.ConstraintName == "events_stream_version_key":
		return fmt.Errorf("%w: %w", ErrVersionConflict, err)
	case answer.Code == "23505" && answer.ConstraintName == "events_event_id_key":
		return fmt.Errorf("%w: %w", ErrDuplicateEvent, err)
	case answer.Code == "54000":
		return fmt.Errorf("%w: %w", ErrPayloadTooLarge, err)
	case answer.Code == "22023":
		return fmt.Errorf("%w: %w", ErrInvalidEvent, err)
	}
	return err
}
