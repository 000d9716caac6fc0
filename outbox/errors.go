package outbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

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
	// ErrPayloadSchema: a payload does not fit the JSON Schema of its type; see PayloadSchemaError.
	ErrPayloadSchema = errors.New("payload does not fit its schema")
	// ErrDuplicateEvent: an event with this ID exists.
	ErrDuplicateEvent = errors.New("event id exists")
)

// InvalidEventError names the fault of an event. It is an ErrInvalidEvent.
type InvalidEventError struct {
	// Index is the event's place among the arguments.
	Index int
	// Field is the field of Event, for example "StreamID" or "Metadata.Headers".
	Field string
	// Reason states the rule.
	Reason string
}

// Error implements error. It never contains the field's value.
func (e *InvalidEventError) Error() string {
	return fmt.Sprintf("%s %d: %s %s", ErrInvalidEvent, e.Index, e.Field, e.Reason)
}

// Unwrap makes errors.Is(err, ErrInvalidEvent) true.
func (e *InvalidEventError) Unwrap() error { return ErrInvalidEvent }

// VersionConflictError has the versions. It is an ErrVersionConflict.
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

// PayloadSchemaError has the fault. It is an ErrPayloadSchema.
type PayloadSchemaError struct {
	// Index is the event's place among the arguments.
	Index int
	// Type is the event's type.
	Type string
	// Pointer is a JSON pointer (RFC 6901) to the part of the payload; empty for the whole.
	Pointer string
	// Rule begins with the keyword of the schema, if there is one, and states the demand.
	Rule  string
	cause error
}

// Error implements error. Of the payload it quotes names of properties alone.
func (e *PayloadSchemaError) Error() string {
	return fmt.Sprintf("event %d: %s of type %q at %q: %s", e.Index, ErrPayloadSchema, e.Type, e.Pointer, e.Rule)
}

// Unwrap gives ErrPayloadSchema and the database's error.
func (e *PayloadSchemaError) Unwrap() []error { return []error{ErrPayloadSchema, e.cause} }

// unfit reads the answer of outbox_check_payload.
func unfit(detail string, cause error) error {
	var told struct {
		Type, Pointer, Rule string
		Position            int // from 1
	}
	if json.Unmarshal([]byte(detail), &told) != nil {
		return fmt.Errorf("%w: %w", ErrPayloadSchema, cause)
	}
	return &PayloadSchemaError{Index: told.Position - 1, Type: told.Type, Pointer: told.Pointer, Rule: told.Rule, cause: cause}
}

// classify puts the sentinel in front of the SQL functions' error.
func classify(err error) error {
	answer := answerOf(err)
	switch {
	case answer.code == "OB001":
		conflict := &VersionConflictError{cause: err}
		if json.Unmarshal([]byte(answer.detail), conflict) != nil {
			return fmt.Errorf("%w: %w", ErrVersionConflict, err)
		}
		return conflict
	case answer.code == "OB002":
		return unfit(answer.detail, err)
	case answer.code == "23505" && strings.HasSuffix(answer.constraint, "_stream_version_key"): // events, or events_3 for a part of it
		return fmt.Errorf("%w: %w", ErrVersionConflict, err)
	case answer.code == "23505" && strings.HasSuffix(answer.constraint, "_event_id_key"):
		return fmt.Errorf("%w: %w", ErrDuplicateEvent, err)
	case answer.code == "54000":
		return fmt.Errorf("%w: %w", ErrPayloadTooLarge, err)
	case answer.code == "22P05": // untranslatable_character
		return fmt.Errorf("%w: the database's encoding has no place for a character of StreamID, Type, Topic, PartitionKey, DedupeKey, TenantID or Metadata; "+
			"in a database with encoding UTF8 it has: %w", ErrInvalidEvent, err)
	case answer.code == "22023":
		return fmt.Errorf("%w: %w", ErrInvalidEvent, err)
	}
	return err
}

// answer is the server's error, whatever driver brought it; empty for other errors.
type answer struct{ code, detail, constraint string }

func answerOf(err error) answer {
	var ofPgx *pgconn.PgError
	var ofPq interface{ Get(field byte) string }
	var ofBun interface{ Field(field byte) string }
	switch {
	case errors.As(err, &ofPgx):
		return answer{ofPgx.Code, ofPgx.Detail, ofPgx.ConstraintName}
	case errors.As(err, &ofPq):
		return answerIn(ofPq.Get)
	case errors.As(err, &ofBun):
		return answerIn(ofBun.Field)
	}
	return answer{}
}

// answerIn reads fields by their letters, https://www.postgresql.org/docs/current/protocol-error-fields.html.
func answerIn(field func(byte) string) answer { return answer{field('C'), field('D'), field('n')} }
