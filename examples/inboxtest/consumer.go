package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/message"
)

// consumer deals with what the test brings. A message is to come again when there is an error.
type consumer interface {
	deal(ctx context.Context, r request) error
	retry(ctx context.Context) error
}

// consume is a consumer under test, of package inbox, of the SQL functions, or one of the broken ones.
func consume(ctx context.Context, as, database, name string, in io.Reader, out io.Writer) error {
	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		return errors.New("--database or DATABASE_URL cannot be read as an address") // the error would show it, with its password
	}
	defer pool.Close()
	say := func(id int64, ack bool) error { return json.NewEncoder(out).Encode(answer{ID: id, Ack: ack}) }
	var c consumer
	switch {
	case as == "package":
		box, err := inbox.New(pool, inbox.Config{Name: name, BackoffBase: time.Hour, BackoffMax: time.Hour})
		if err != nil {
			return err
		}
		c = withPackage{box}
	case as == "functions":
		c = withFunctions{pool, name, uuid.New()}
	case slices.Contains(faults, as):
		c = &broken{withFunctions: withFunctions{pool, name, uuid.New()}, fault: as, say: say, seen: map[string]bool{}}
	default:
		return fmt.Errorf("there is no consumer %q: package, functions, %s", as, strings.Join(faults, ", "))
	}
	for scanner := bufio.NewScanner(in); scanner.Scan(); {
		var r request
		if err := json.Unmarshal(scanner.Bytes(), &r); err != nil {
			return err
		}
		do := c.deal
		if r.Retry {
			do = func(ctx context.Context, _ request) error { return c.retry(ctx) }
		}
		if err := say(r.ID, do(ctx, r) == nil); err != nil {
			return err
		}
	}
	return nil
}

var errEffect = errors.New("the effect failed")

// effect is that of the test.
func effect(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, stream, version, event string,
) error {
	var fails bool
	err := db.QueryRow(ctx, `SELECT inboxtest_effect($1, $2::text::bigint, $3::text::uuid)`, stream, version, event).Scan(&fails)
	if err == nil && fails {
		err = errEffect
	}
	return err
}

// withPackage is a consumer with package inbox.
type withPackage struct{ box *inbox.Inbox }

func (c withPackage) handle(ctx context.Context, tx pgx.Tx, m message.Message) ([]byte, error) {
	return nil, effect(ctx, tx, m.Stream, fmt.Sprint(m.Version), m.EventID.String())
}

func (c withPackage) deal(ctx context.Context, r request) error {
	header := map[string][]string{}
	for name, value := range r.Headers {
		header[name] = []string{value}
	}
	m, err := message.Parse(r.Subject, r.StreamSequence, header, r.Payload)
	if errors.Is(err, message.ErrMalformed) {
		return nil // a Consumer keeps it in inbox_malformed
	}
	if err == nil {
		_, err = c.box.Process(ctx, m, c.handle)
	}
	return err
}

func (c withPackage) retry(ctx context.Context) error {
	_, err := c.box.RetryDue(ctx, 1000, c.handle)
	return err
}

// withFunctions is a consumer with the SQL functions.
type withFunctions struct {
	pool    *pgxpool.Pool
	name    string
	process uuid.UUID
}

func (c withFunctions) deal(ctx context.Context, r request) error { return c.dealAs(ctx, r, nil) }

func (c withFunctions) dealAs(ctx context.Context, r request, parked *int64) error {
	err := pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
		run, err := c.begin(ctx, tx, r, parked)
		if err != nil || !run {
			return err
		}
		return c.effect(ctx, tx, r)
	})
	if err == nil || outage(err) {
		return err
	}
	return c.failed(ctx, r, parked, err)
}

func (c withFunctions) effect(ctx context.Context, tx pgx.Tx, r request) error {
	return effect(ctx, tx, r.Headers[message.HeaderStream], r.Headers[message.HeaderStreamVersion], r.Headers[message.HeaderEventID])
}

func (c withFunctions) begin(ctx context.Context, tx pgx.Tx, r request, parked *int64) (run bool, err error) {
	err = tx.QueryRow(ctx, `SELECT verdict = 'run' FROM inbox_begin($1, $2, $3, $4, $5, $6)`,
		c.name, r.Subject, int64(r.StreamSequence), r.Headers, r.Payload, parked).Scan(&run)
	return run, err
}

func (c withFunctions) failed(ctx context.Context, r request, parked *int64, cause error) error {
	_, err := c.pool.Exec(ctx, `SELECT inbox_failed($1, $2, $3, $4, $5, $6, $7)`,
		c.name, r.Subject, int64(r.StreamSequence), r.Headers, r.Payload, cause.Error(), parked)
	return err
}

func (c withFunctions) retry(ctx context.Context) error {
	for {
		var parked, sequence int64
		var r request
		err := c.pool.QueryRow(ctx, `SELECT parked, subject, stream_sequence, headers, payload FROM inbox_next($1, $2)`, c.name, c.process).
			Scan(&parked, &r.Subject, &sequence, &r.Headers, &r.Payload)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		r.StreamSequence = uint64(sequence)
		if err == nil {
			err = c.dealAs(ctx, r, &parked)
		}
		if err != nil {
			return err
		}
	}
}

// outage tells whether an error says nothing about the message: the database goes away, or transactions were in each other's way.
func outage(err error) bool {
	var answer *pgconn.PgError
	if !errors.As(err, &answer) {
		return !errors.Is(err, errEffect)
	}
	return slices.Contains([]string{"08", "40", "53", "57", "58"}, answer.Code[:2])
}
