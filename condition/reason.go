package condition

import (
	"errors"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
)

// Reason classes the cause of a pause, in one word.
type Reason string

// The reasons, in the order in which one explains those of the same server after it.
const (
	BrokerRefused    Reason = "broker_refused"     // the login is refused, a right in NATS is missing, or a setting is wrong
	BrokerAway       Reason = "broker_away"        // no connection to NATS
	StreamUnfit      Reason = "stream_unfit"       // a setting under which it would not keep what it acknowledges
	StreamMissing    Reason = "stream_missing"     // the stream does not exist
	StreamFull       Reason = "stream_full"        // it refuses new messages
	BrokerFull       Reason = "broker_full"        // a limit of the account or the server
	StreamAway       Reason = "stream_away"        // nobody answers for it
	FenceRefused     Reason = "fence_refused"      // its record names a newer owner, again and again
	DatabaseReadOnly Reason = "database_read_only" // a standby, or default_transaction_read_only
	DatabaseRights   Reason = "database_rights"    // the worker's role lacks a right
	DatabaseUnfit    Reason = "database_unfit"     // a precondition does not hold any more
	DatabaseFull     Reason = "database_full"      // no room on its disk
	DatabaseAway     Reason = "database_away"      // no answer
	DatabaseFailed   Reason = "database_failed"    // it answers with another error
	Other            Reason = "other"
)

type server int

const (
	broker server = iota
	stream
	database
	anything
)

// known has each reason's server, title and cure.
var known = []struct {
	Reason
	server
	title, cure string
}{
	{BrokerRefused, broker, "NATS refuses", "mend the worker's login or the setting that the error names; its user needs the rights of deploy/nats/permissions.conf"},
	{BrokerAway, broker, "NATS cannot be reached", "bring it back, or correct --nats-url; delivery goes on by itself"},
	{StreamUnfit, broker, "The stream does not fit", "set back what the error names (nats stream edit); delivery goes on by itself, and nothing is published again before"},
	{StreamMissing, broker, "The stream does not exist", "make it again as it was, or start a worker with --create-stream; what it had acknowledged is published again"},
	{StreamFull, broker, "The stream is full", "raise its limit, or purge events that every consumer has read: they do not come again; its records must stay"},
	{BrokerFull, broker, "NATS has no room", "raise the limits of the account (max_file, max_mem) or of the server (max_file_store, max_memory_store, its disk), or make room in its streams"},
	{StreamAway, broker, "Nobody answers for the stream", "see that JetStream runs and the stream has a leader: nats stream info"},
	{FenceRefused, stream, "The stream knows a newer owner", "see that no other cluster publishes to it, and that the database is not an older copy"},
	{DatabaseReadOnly, database, "The database is read-only", "connect to the primary (target_session_attrs=read-write), or turn default_transaction_read_only off"},
	{DatabaseRights, database, "The database role lacks a right", "run deploy/sql/roles.sql once more, or grant what the error names; where row-level security hides rows: ALTER ROLE … BYPASSRLS; without functions of PostgreSQL do workers that begin then"},
	{DatabaseUnfit, database, "The database does not fit", "run what the error says, or see postrider doctor; delivery goes on by itself"},
	{DatabaseFull, database, "The database's disk is full", "make room on it"},
	{DatabaseAway, database, "The database does not answer", "bring it back, or correct --database-url; delivery goes on by itself"},
	{DatabaseFailed, database, "The database refuses", "its error says what is wrong"},
	{Other, anything, "Delivery pauses", "the worker's log says more"},
}

// Reasons are all of them, in their order.
func Reasons() []Reason {
	list := make([]Reason, len(known))
	for i, k := range known {
		list[i] = k.Reason
	}
	return list
}

func (r Reason) rank() int {
	for i, k := range known {
		if k.Reason == r {
			return i
		}
	}
	return len(known) - 1
}

// Title returns the reason's name for people, or for an unknown reason the word itself.
func (r Reason) Title() string {
	if k := known[r.rank()]; k.Reason == r {
		return k.title
	}
	return string(r)
}

// Cure returns a person's remedy, in one line.
func (r Reason) Cure() string { return known[r.rank()].cure }

// Judge classes an error; "": it does not know it.
type Judge func(error) Reason

// ofDatabase classes errors of PostgreSQL and of the way to it.
func ofDatabase(err error) Reason {
	var refused *pgconn.PgError
	var unconnected *pgconn.ConnectError
	var network net.Error
	switch {
	case errors.As(err, &refused):
		return ofState(refused.Code)
	case errors.As(err, &unconnected), pgconn.Timeout(err), pgconn.SafeToRetry(err),
		errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return DatabaseAway
	}
	return ""
}

func ofState(state string) Reason {
	switch state {
	case "25006": // read_only_sql_transaction
		return DatabaseReadOnly
	case "42501": // insufficient_privilege
		return DatabaseRights
	case "53100": // disk_full
		return DatabaseFull
	case "53300", "25P03", "25P04": // too_many_connections; sessions that a time-out ended
		return DatabaseAway
	}
	switch state[:2] {
	case "08", "57": // connection exceptions; shutdowns and cancellations
		return DatabaseAway
	}
	return DatabaseFailed
}

// Error is an error whose reason is known where it is made.
type Error struct {
	Reason Reason
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }
