package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/message"
)

// faults are the broken consumers: each differs from the one with the SQL functions in one thing.
var faults = []string{
	"remembers-nothing",  // every message runs
	"ids-alone",          // what was not seen runs, however late
	"waits-for-gaps",     // the next version is the last plus one, or it does not come
	"acks-first",         // before the transaction
	"in-memory",          // what was seen is known to the process alone
	"by-sequence",        // a partition's sequences only ascend
	"by-version",         // a version that was seen is a repeat, whoever has it
	"own-commit",         // the effect has a transaction of its own
	"drops-failures",     // what fails is rolled back and acknowledged
	"never-parks",        // what fails is to come again, and all behind it waits
	"never-retries",      // what is parked stays there
	"looks-without-lock", // two find the same event unseen
	"by-generation",      // what has a higher generation is another event
}

// broken is a consumer with a fault.
type broken struct {
	withFunctions

	fault string
	say   func(id int64, ack bool) error
	seen  map[string]bool
}

var errComesAgain = errors.New("to come again")

func (c *broken) deal(ctx context.Context, r request) error { return c.dealAs(ctx, r, nil) }

func (c *broken) dealAs(ctx context.Context, r request, parked *int64) error {
	if c.fault == "acks-first" {
		if err := c.say(r.ID, true); err != nil {
			return err
		}
	}
	err := pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
		run, err := c.decide(ctx, tx, r, parked)
		switch {
		case err != nil || !run:
			return err
		case c.fault == "own-commit":
			return effect(ctx, c.pool, r.Headers[message.HeaderStream], r.Headers[message.HeaderStreamVersion], r.Headers[message.HeaderEventID])
		}
		err = c.effect(ctx, tx, r)
		if err == nil && c.fault == "looks-without-lock" {
			_, err = tx.Exec(ctx, remember, c.name, r.Headers)
		}
		return err
	})
	switch {
	case err == nil, outage(err), errors.Is(err, errComesAgain), c.fault == "never-parks":
		return err
	case c.fault == "drops-failures":
		return nil
	}
	return c.failed(ctx, r, parked, err)
}

// remember notes a message, for those that decide by themselves; it touches no row when the message is known.
const remember = `INSERT INTO inboxtest_seen (consumer, event_id, generation, stream, version, partition, sequence)
	SELECT $1, (h ->> 'Outbox-Event-Id')::uuid, coalesce(h ->> 'Outbox-Generation', '0')::bigint, h ->> 'Outbox-Stream',
	       (h ->> 'Outbox-Stream-Version')::bigint, (h ->> 'Outbox-Partition')::bigint, (h ->> 'Outbox-Sequence')::bigint
	  FROM (SELECT $2::jsonb AS h) AS h ON CONFLICT DO NOTHING`

// decide tells whether the effect is to be made.
func (c *broken) decide(ctx context.Context, tx pgx.Tx, r request, parked *int64) (run bool, err error) {
	own := map[string]string{ // true: it runs
		"ids-alone":          `SELECT NOT EXISTS (SELECT FROM inboxtest_seen WHERE consumer = $1 AND event_id = ($2::jsonb ->> 'Outbox-Event-Id')::uuid)`,
		"looks-without-lock": `SELECT NOT EXISTS (SELECT FROM inboxtest_seen WHERE consumer = $1 AND event_id = ($2::jsonb ->> 'Outbox-Event-Id')::uuid)`,
		"by-generation": `SELECT NOT EXISTS (SELECT FROM inboxtest_seen WHERE consumer = $1 AND event_id = ($2::jsonb ->> 'Outbox-Event-Id')::uuid
			AND generation = coalesce($2::jsonb ->> 'Outbox-Generation', '0')::bigint)`,
		"by-sequence": `SELECT coalesce(max(sequence), 0) < ($2::jsonb ->> 'Outbox-Sequence')::bigint FROM inboxtest_seen
			WHERE consumer = $1 AND partition = ($2::jsonb ->> 'Outbox-Partition')::bigint`,
		"by-version": `SELECT coalesce(max(version), 0) < ($2::jsonb ->> 'Outbox-Stream-Version')::bigint FROM inboxtest_seen
			WHERE consumer = $1 AND stream = $2::jsonb ->> 'Outbox-Stream'`,
	}[c.fault]
	event := r.Headers[message.HeaderEventID]
	switch {
	case own != "":
		if err := tx.QueryRow(ctx, own, c.name, r.Headers).Scan(&run); err != nil || !run || c.fault == "looks-without-lock" {
			return run, err
		}
		_, err := tx.Exec(ctx, remember, c.name, r.Headers)
		return true, err
	case c.fault == "remembers-nothing":
		return true, nil
	case c.fault == "in-memory":
		run = !c.seen[event]
		c.seen[event] = true
		return run, nil
	case c.fault == "waits-for-gaps" && parked == nil:
		var last int64
		err := tx.QueryRow(ctx, `SELECT coalesce(max(version), 0) FROM inbox_streams WHERE consumer = $1 AND stream = $2`,
			c.name, r.Headers[message.HeaderStream]).Scan(&last)
		if err != nil {
			return false, err
		}
		if version := r.Headers[message.HeaderStreamVersion]; len(version) > 0 && version > fmt.Sprint(last+1) { // versions here have one digit
			return false, errComesAgain
		}
	}
	return c.begin(ctx, tx, r, parked)
}

func (c *broken) retry(ctx context.Context) error {
	if c.fault == "never-retries" {
		return nil
	}
	return c.withFunctions.retry(ctx)
}
