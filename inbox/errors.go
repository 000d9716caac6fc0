package inbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/closed"
	"github.com/postrider/postrider/internal/pg"
)

// Errors to branch on.
var (
	// ErrConfig: a Config breaks a rule; the text names the field.
	ErrConfig = errors.New("inbox config")
	// ErrFenced: the reader's lane belongs to another reader now, or the database has forgotten its position. Nothing was done.
	ErrFenced = errors.New("the lane has another reader, or the database has forgotten its position")
	// ErrNotMigrated: the schema holds no inbox tables, or older ones than this program needs.
	ErrNotMigrated = errors.New("inbox tables are missing or too old")
	// ErrNewer: a newer program migrated the schema.
	ErrNewer = errors.New("inbox tables are newer than this program")
	// ErrStream: the JetStream stream is missing or unfit; the text says why.
	ErrStream = errors.New("stream is unfit for an inbox")
	// ErrClosed: the NATS client has given its connection up, or the pool was closed. Only a new one helps.
	ErrClosed = closed.Err
	// ErrNotFound: no parked message has that id.
	ErrNotFound = errors.New("no such parked message")
)

// Final marks a handler's error as final: no retry can help. The message is dead at once. Final(nil) is nil.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return &finalError{err}
}

// IsFinal reports whether an error was marked by Final.
func IsFinal(err error) bool {
	var f *finalError
	return errors.As(err, &f)
}

type finalError struct{ cause error }

func (e *finalError) Error() string { return e.cause.Error() }

func (e *finalError) Unwrap() error { return e.cause }

// errConflict is the reason of a dead message whose place another event has.
var errConflict = errors.New("another event has this stream and version: the producer's database forgot published events")

// maxReason bounds a stored error, in bytes.
const maxReason = 4096

// reason returns an error's text as PostgreSQL stores it, cut at maxReason.
func reason(err error) *string {
	if err == nil {
		return nil
	}
	s := text(err.Error())
	if len(s) > maxReason {
		s = strings.ToValidUTF8(s[:maxReason], "") + " …"
	}
	return &s
}

// text returns s as PostgreSQL stores it: valid and without NUL.
func text(s string) string { return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\uFFFD") }

// unfit reports whether a message's values cause an error, whatever the server's state: they cannot be encoded, or the tables do not hold
// them. Other errors may end by themselves, or when somebody mends a setting.
func unfit(err error) bool {
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
		return slices.Contains([]string{"22001", "22003", "22008", "22021", "22P02", "22P05", "54000"}, answer.Code)
	}
	if encoded, ok := errors.AsType[pgx.ErrPreprocessingBatch](err); ok {
		return strings.Contains(encoded.Error(), "(build)") // of a batch that was prepared: its arguments
	}
	_, is := errors.AsType[*json.MarshalerError](err)
	return is || errors.Is(err, errEnvelope)
}

// numbered maps a violated key to its column, whose sequence must not stand behind its table.
var numbered = map[string]string{"inbox_streams_pkey": "stream_key", "inbox_parked_pkey": "parked_id"}

// withCure adds the cure for missing tables, and for sequences that stand behind their tables.
func withCure(err error) error {
	answer, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case !ok:
	case slices.Contains([]string{"42P01", "42883", "3F000"}, answer.Code):
		return fmt.Errorf("%w: call inbox.Migrate or run `postrider inbox migrate`: %w", ErrNotMigrated, err)
	case answer.Code == "23505" && numbered[answer.ConstraintName] != "":
		table, column := pgx.Identifier{answer.SchemaName, answer.TableName}.Sanitize(), numbered[answer.ConstraintName]
		return fmt.Errorf("the sequence of %s stands behind its rows, as a dump or replication leave it: SELECT setval(pg_get_serial_sequence('%s', '%s'), max(%s)) FROM %s: %w",
			table, table, column, column, table, err)
	}
	return pg.WithCure(err)
}
