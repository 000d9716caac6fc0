package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/outbox"
)

const (
	// removalPatience bounds the making and the removal of the scratch.
	removalPatience = 30 * time.Second
	removalInterval = 500 * time.Millisecond
)

// scratchName is the prefix of the scratch's name, and the first token of its subjects.
const scratchName = "postrider_verify"

// scratch is a schema and a stream of one name on a user's servers. It removes only things that this process made.
type scratch struct {
	name string

	pool   *pgxpool.Pool
	js     jetstream.JetStream
	schema bool // made
	stream bool // made
}

func newScratch() *scratch {
	return &scratch{name: scratchName + "_" + strings.ToLower(rand.Text()[:12])}
}

// below returns a subject of the scratch. The first token is the same for every scratch, so that rights can be given for all.
func (x *scratch) below(what string) string {
	return scratchName + "." + strings.TrimPrefix(x.name, scratchName+"_") + "." + what
}

func (x *scratch) subject() string { return x.below("events.{topic}.{type}") }

func (x *scratch) control() string { return x.below("fence") }

func (x *scratch) quoted() string { return pgx.Identifier{x.name}.Sanitize() }

// makeSchema refuses an existing schema.
func (x *scratch) makeSchema(ctx context.Context, pool *pgxpool.Pool) error {
	const duplicateSchema, insufficientPrivilege = "42P06", "42501"
	x.pool = pool
	_, err := pool.Exec(ctx, `CREATE SCHEMA `+x.quoted())
	switch {
	case err == nil:
		x.schema = true
		return nil
	case pg.Refused(err, duplicateSchema):
		return fmt.Errorf("%w: schema %s is there already, and somebody else's", errRefused, x.name)
	case pg.Refused(err, insufficientPrivilege):
		c := pool.Config().ConnConfig
		return fmt.Errorf("%w: --database-url: the role may not make the scratch schema; GRANT CREATE ON DATABASE %s TO %s",
			errRefused, pgx.Identifier{c.Database}.Sanitize(), pgx.Identifier{c.User}.Sanitize())
	}
	return fmt.Errorf("make schema %s: %w", x.name, err)
}

// slowStreams is the prefix of the streams whose appends slowDown delays.
const slowStreams = "slow"

// slowDown holds some streams' transactions open after they drew a sequence and before they have an id: no snapshot knows them.
func (x *scratch) slowDown(ctx context.Context) error {
	for _, sql := range []string{
		`CREATE FUNCTION ` + x.quoted() + `.slow_down() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_catalog.pg_sleep(0.4); RETURN NEW; END'`,
		`CREATE TRIGGER slow_down BEFORE INSERT ON ` + x.quoted() + `.events FOR EACH ROW WHEN (NEW.stream_id LIKE '` + slowStreams + `-%') EXECUTE FUNCTION ` +
			x.quoted() + `.slow_down()`,
	} {
		if _, err := x.pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("slow some streams down: %w", err)
		}
	}
	return nil
}

// lockHistory blocks all marks until end is called: it locks the history, into which each mark writes.
func (x *scratch) lockHistory(ctx context.Context) (end func(), err error) {
	tx, err := x.pool.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("keep marks from being made: %w", err)
	}
	end = func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }
	if _, err := tx.Exec(ctx, `LOCK TABLE `+x.quoted()+`.outbox_deliveries IN SHARE MODE`); err != nil {
		end()
		return nil, fmt.Errorf("keep marks from being made: %w", err)
	}
	return end, nil
}

// makeStream refuses an existing stream, and a foreign stream that would store the doorbell's messages.
func (x *scratch) makeStream(ctx context.Context, nc *nats.Conn, config streams.StreamConfig) (err error) {
	if x.js, err = streams.JetStream(nc, config.APIPrefix); err != nil {
		return err
	}
	const rights = "the NATS user needs what it takes to make, use and delete a stream: see docs/verify.md"
	switch _, err = x.js.Stream(ctx, x.name); {
	case err == nil:
		return fmt.Errorf("%w: stream %s is there already, and somebody else's", errRefused, x.name)
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("look for stream %s: %w; %s", x.name, err, rights)
	}
	bell := outbox.BellSubject(x.name)
	switch other, err := x.js.StreamNameBySubject(ctx, bell); {
	case err == nil:
		return fmt.Errorf("%w: stream %s captures %s, and would store what wakes the scratch's workers; take outbox.bell.> out of its subjects", errRefused, other, bell)
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("look for a stream that captures %s: %w; %s", bell, err, rights)
	}
	config.Name, config.Create = x.name, true
	x.stream = true // even when the answer is lost: nobody else makes one of this name
	if _, err := streams.EnsureStream(ctx, nc, config); err != nil {
		return fmt.Errorf("%w; %s", err, rights)
	}
	return nil
}

// remove removes schema and stream with retries, and returns the commands that remove the rest.
func (x *scratch) remove(ctx context.Context) (left []string) {
	for {
		left = nil
		if x.stream {
			if err := x.js.DeleteStream(ctx, x.name); err == nil || errors.Is(err, jetstream.ErrStreamNotFound) {
				x.stream = false
			} else {
				left = append(left, "nats stream rm -f "+x.name)
			}
		}
		if x.schema {
			drop := "DROP SCHEMA " + x.quoted() + " CASCADE"
			if _, err := x.pool.Exec(ctx, drop); err == nil {
				x.schema = false
			} else {
				left = append(left, "psql -c '"+drop+"'")
			}
		}
		if len(left) == 0 || ctx.Err() != nil {
			return left
		}
		select {
		case <-ctx.Done():
		case <-time.After(removalInterval):
		}
	}
}

// scrutiny is the report on a run on a user's servers, beside its verdict.
type scrutiny struct {
	Scratch string `json:"scratch,omitempty"`
	// Takeover is the longest time until a killed, frozen or delayed worker owned no partition any more, Bound the promised one.
	Takeover float64   `json:"longest_takeover_seconds,omitempty"`
	Bound    float64   `json:"promised_takeover_seconds,omitempty"`
	Doctor   []finding `json:"doctor,omitempty"`
	// Interrupted runs prove nothing about the mishaps they left out.
	Interrupted bool `json:"interrupted,omitempty"`
	// Left holds the commands that remove the rest of the scratch.
	Left []string `json:"left_behind,omitempty"`
}

func (y *scrutiny) ok() bool {
	return y == nil || y.Takeover <= y.Bound && len(y.Left) == 0 && !y.Interrupted
}

// word is the verdict in a line; fit is the verdict without y.
func (y *scrutiny) word(fit bool) string {
	switch {
	case fit && y.ok():
		return "VERDICT: every event once, in order."
	case fit && y.Interrupted:
		return "VERDICT: none; it was interrupted. Nothing was broken until then."
	}
	return "VERDICT: BROKEN."
}

func (y *scrutiny) tell(say func(string, ...any)) {
	if y == nil {
		return
	}
	say("  takeover of partitions from a worker that is gone: %.1f s at most, promised %.1f s", y.Takeover, y.Bound)
	well := 0
	for _, f := range y.Doctor {
		if f.Level == levelOK {
			well++
		}
	}
	say("  doctor: %d of %d checks are ok", well, len(y.Doctor))
	for _, f := range y.Doctor {
		if f.Level != levelOK {
			say("    %s: %s: %s", f.Level, f.Check, printable(f.Detail))
		}
	}
}
