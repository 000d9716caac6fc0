package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/outbox"
)

//go:embed sender.sql
var senderTables string

// Topic and type of the events that announce calls, and the subjects on which they arrive.
const (
	callTopic  = "calls"
	callType   = "call.made"
	callFilter = "events." + callTopic + ".>"
)

// errTooLate: the call was sent already, is finished, or never was; it cannot be taken back.
var errTooLate = errors.New("too late to cancel: it was sent, is finished, or never was")

// call is what a transaction asks of another system.
type call struct {
	Target    string
	Procedure string
	Arguments any
	// OnResult names the callback that gets the result.
	OnResult string
}

// sender writes calls.
type sender struct{ producer *outbox.Producer }

func newSender() (*sender, error) {
	producer, err := outbox.New(outbox.Config{})
	if err != nil {
		return nil, err
	}
	return &sender{producer: producer}, nil
}

// sendTx writes a call as part of tx and returns its id. Calls to one target get ascending ids in the order in which
// their transactions commit: the stream of the target stays locked until tx ends.
func (s *sender) sendTx(ctx context.Context, tx pgx.Tx, c call) (int64, error) {
	arguments, err := json.Marshal(c.Arguments)
	if err != nil {
		return 0, fmt.Errorf("arguments of the call: %w", err)
	}
	// The event is a pointer as the outbox's rows are: cancelling a call leaves nothing of it in the stream.
	appended, err := s.producer.AppendTx(ctx, tx, outbox.Event{
		ID: uuid.Must(uuid.NewV7()), StreamID: "calls/" + c.Target, Topic: callTopic, Type: callType, Payload: []byte(`{}`),
	})
	if err != nil {
		return 0, err
	}
	id := appended[0].Sequence
	var size int
	err = tx.QueryRow(ctx, `INSERT INTO remote_calls (call_id, call_uuid, target, procedure, arguments, on_result)
		VALUES ($1, $2, $3, $4, $5, $6) RETURNING octet_length(arguments::text)`,
		id, appended[0].EventID, c.Target, c.Procedure, arguments, c.OnResult).Scan(&size)
	switch {
	case refusedBy(err, "23503"): // foreign key
		return 0, fmt.Errorf("there is no target %q; `remotecall target` makes one", c.Target)
	case err != nil:
		return 0, fmt.Errorf("write call %d: %w", id, err)
	case size > largestArguments: // no receiver would take it, and what comes behind it would wait for ever
		return 0, fmt.Errorf("the arguments of the call have %d bytes, at most %d fit", size, largestArguments)
	}
	return id, nil
}

// cancelTx takes a call back as part of tx. When it returns nil and tx commits, the call was never sent and never
// will be. Else it returns errTooLate and changes nothing: the call runs its course.
func cancelTx(ctx context.Context, tx pgx.Tx, id int64) error {
	done, err := tx.Exec(ctx, `DELETE FROM remote_calls WHERE call_id = $1 AND sent_at IS NULL`, id)
	if err == nil && done.RowsAffected() == 0 {
		return fmt.Errorf("call %d: %w", id, errTooLate)
	}
	return err
}

// arrivedTx notes that the event of a call came out of the stream, and returns the target to wake; "" when the call
// was cancelled, is finished, or had arrived before.
func arrivedTx(ctx context.Context, tx pgx.Tx, id int64, event uuid.UUID) (target string, err error) {
	err = tx.QueryRow(ctx, `UPDATE remote_calls SET arrived_at = clock_timestamp()
		WHERE call_id = $1 AND call_uuid = $2 AND arrived_at IS NULL RETURNING target`, id, event).Scan(&target)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return target, err
}

// prepareSender creates the sender's tables.
func prepareSender(ctx context.Context, pool *pgxpool.Pool) error {
	return locked(ctx, pool, senderTables)
}

// locked runs statements under a lock: of several programs that start at once only one creates a table.
func locked(ctx context.Context, pool *pgxpool.Pool, statements string) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('examples/remotecall'))`); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, statements)
		return err
	})
}

// refusedBy tells whether PostgreSQL answered with this code.
func refusedBy(err error, code string) bool {
	var answer *pgconn.PgError
	return errors.As(err, &answer) && answer.Code == code
}

// targetName is what a target may be called: a name that needs no quoting anywhere.
var targetName = regexp.MustCompile(`^[a-z0-9_-]{1,64}$`)

// setTarget says where a target is and which token it knows the sender by.
func setTarget(ctx context.Context, pool *pgxpool.Pool, target, address, token string) error {
	if !targetName.MatchString(target) {
		return fmt.Errorf("NAME must match %s, got %q", targetName, target)
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("URL must be http:// or https:// with a host, without query and fragment") // it may hold a password
	}
	_, err = pool.Exec(ctx, `INSERT INTO remote_targets VALUES ($1, $2, $3)
		ON CONFLICT (target) DO UPDATE SET url = excluded.url, token = excluded.token`, target, address, token)
	if err != nil {
		return fmt.Errorf("target %q: %w", target, err)
	}
	return nil
}
