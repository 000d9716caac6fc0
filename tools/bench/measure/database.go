package measure

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/outbox/schema"
	"github.com/postrider/postrider/partition"
)

// shape describes a database's content.
type shape struct {
	partitions int
	payload    int
	json       bool // the events' payload is jsonb
	events     int  // present from the start, and to be published
	log        logUse
}

// logUse is the use of the server's log.
type logUse string

const (
	logDecodable logUse = "decodable" // decodable, but not decoded
	logRings     logUse = "rings"     // the outbox asks for the bell from the log
	logMessages  logUse = "messages"  // as decodable, and each append writes a message into it, as the bell could need instead
)

// emits adds the message to the function that appends one event.
const emits = `DO $do$ BEGIN EXECUTE replace(pg_get_functiondef('outbox_append_event'::regproc), E'\nEND\n$function$',
	E'\n    PERFORM pg_logical_emit_message(true, ''postrider'', placed::text);\nEND\n$function$'); END $do$`

// decodable restarts the server with a log that can be decoded, which is larger: scenarios that need none come before.
func (b *Bench) decodable(ctx context.Context) (err error) {
	if b.decodes {
		return nil
	}
	if err := b.execute(ctx, `ALTER SYSTEM SET wal_level = 'logical'`); err != nil {
		return err
	}
	if err := b.postgres.Restart(ctx); err != nil {
		return err
	}
	b.decodes = true
	b.postmaker, err = postmaster(b.postgres.DataDir())
	return err
}

// sender waits for the process that decodes the log for the bell.
func (d *database) sender(ctx context.Context) (pid int, err error) {
	err = until(ctx, lookEvery, func() (bool, error) {
		err := d.pool.QueryRow(ctx, `SELECT coalesce(max(active_pid), 0) FROM pg_replication_slots WHERE confirmed_flush_lsn IS NOT NULL`).Scan(&pid)
		return pid != 0, err
	})
	return pid, err
}

// database is an outbox filled with events, which can be put back as it was.
type database struct {
	shape
	url  string
	pool *pgxpool.Pool
	data *dataset
}

// servers returns an outbox without published events, and a new broker, which the caller closes.
func (b *Bench) servers(ctx context.Context, s shape, on brokerShape) (*database, *broker, error) {
	d, err := b.database(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	if err := d.restore(ctx, false); err != nil {
		return nil, nil, err
	}
	n, err := b.broker(ctx, on)
	return d, n, err
}

// database returns the database of a shape, and makes it when there is none.
func (b *Bench) database(ctx context.Context, s shape) (*database, error) {
	if d := b.databases[s]; d != nil {
		return d, nil
	}
	data, err := b.dataset(s.payload)
	if err != nil {
		return nil, err
	}
	if s.log != "" {
		if err := b.decodable(ctx); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	b.made++
	name := "bench_" + strconv.Itoa(b.made)
	if err := b.execute(ctx, `CREATE DATABASE `+name); err != nil {
		return nil, err
	}
	u, err := url.Parse(b.postgres.URL())
	if err != nil {
		return nil, fmt.Errorf("address of PostgreSQL: %w", err)
	}
	u.Path = "/" + name
	d := &database{shape: s, url: u.String(), data: data}
	m, err := schema.New(schema.Config{DatabaseURL: d.url, Partitions: s.partitions, OthersMayCreate: true, Logger: b.cfg.Logger})
	if err != nil {
		return nil, err
	}
	if err := m.Up(ctx); err != nil {
		return nil, fmt.Errorf("make the tables: %w", err)
	}
	cfg, err := pgxpool.ParseConfig(d.url)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	cfg.MaxConns = producers + 4 // each producer keeps its own
	if d.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	b.databases[s] = d
	if s.json {
		if err := d.execute(ctx, `ALTER TABLE events ALTER COLUMN payload TYPE jsonb USING convert_from(payload, 'UTF8')::jsonb`); err != nil {
			return nil, err
		}
	}
	switch s.log {
	case logRings:
		err = d.execute(ctx, `CREATE PUBLICATION postrider_public FOR TABLE outbox_ready WITH (publish = 'insert')`)
	case logMessages:
		err = d.execute(ctx, emits)
	}
	if err != nil {
		return nil, err
	}
	if err := d.execute(ctx, `CREATE TABLE bench_others (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload bytea)`); err != nil {
		return nil, err
	}
	if err := d.execute(ctx, `CREATE UNLOGGED TABLE bench_pointers (global_sequence bigint, partition_key smallint, stream_id text, topic text)`); err != nil {
		return nil, err
	}
	if s.events > 0 {
		b.say("seeding %d events of %d bytes in %d partitions", s.events, s.payload, s.partitions)
		if err := d.seed(ctx, 0, s.events, "bench_pointers", func(seeded int) { b.say("seeded %d of %d", seeded, s.events) }); err != nil {
			return nil, err
		}
		if err := d.execute(ctx, `VACUUM (ANALYZE) events`); err != nil {
			return nil, err
		}
		b.say("seeded in %s", time.Since(began).Round(100*time.Millisecond))
	}
	return d, nil
}

// dropDatabases removes a scenario's databases.
func (b *Bench) dropDatabases(ctx context.Context) error {
	for s, d := range b.databases {
		delete(b.databases, s)
		d.pool.Close()
		if err := b.execute(ctx, `DROP DATABASE `+d.name()+` WITH (FORCE)`); err != nil {
			return err
		}
	}
	return nil
}

func (d *database) name() string {
	return d.url[strings.LastIndex(d.url, "/")+1 : strings.LastIndex(d.url, "?")]
}

// execute runs a statement in the server's own database.
func (b *Bench) execute(ctx context.Context, statement string) error {
	conn, err := pgx.Connect(ctx, b.postgres.URL())
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

func (d *database) execute(ctx context.Context, statements ...string) error {
	for _, statement := range statements {
		if _, err := d.pool.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%.60s: %w", statement, err)
		}
	}
	return nil
}

// seed writes events from..to, counted from 0, and their pointers into a table, in one transaction.
func (d *database) seed(ctx context.Context, from, to int, pointers string, progress func(seeded int)) error {
	tx, err := d.pool.Begin(ctx)
	if err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	defer tx.Rollback(ctx)
	const chunk = 50_000 // keeps each copy small
	for first := from; first < to; first += chunk {
		if first > from && first%1_000_000 == 0 {
			progress(first)
		}
		last := min(to, first+chunk)
		i := first - 1
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"events"},
			[]string{"sequence", "event_id", "stream_id", "stream_version", "event_type", "topic", "payload", "occurred_at"},
			pgx.CopyFromFunc(func() ([]any, error) {
				if i++; i == last {
					return nil, nil
				}
				e := d.data.at(i)
				return []any{int64(i + 1), [16]byte(e.id), e.stream, e.version, e.kind, topic, e.payload, e.occurred}, nil
			}))
		if err != nil {
			return fmt.Errorf("seed events: %w", err)
		}
		i = first - 1
		_, err = tx.CopyFrom(ctx, pgx.Identifier{pointers}, []string{"global_sequence", "partition_key", "stream_id", "topic"},
			pgx.CopyFromFunc(func() ([]any, error) {
				if i++; i == last {
					return nil, nil
				}
				stream := d.data.stream(i)
				return []any{int64(i + 1), int16(partition.Of(stream, partition.Count(d.partitions))), stream, topic}, nil
			}))
		if err != nil {
			return fmt.Errorf("seed pointers: %w", err)
		}
	}
	if _, err := tx.Exec(ctx, `SELECT setval(pg_get_serial_sequence('events', 'sequence'), $1)`, to); err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	return nil
}

// restore resets the database: no event published, no worker known. With paused, workers take the partitions but claim
// nothing until the pause ends.
func (d *database) restore(ctx context.Context, paused bool) error {
	pause := "NULL"
	if paused {
		pause = "clock_timestamp()"
	}
	if err := d.shorten(ctx); err != nil {
		return err
	}
	return d.execute(ctx,
		`TRUNCATE outbox, outbox_deliveries, outbox_throughput, outbox_workers, outbox_audit, outbox_ownership`,
		`UPDATE outbox_watermark SET safe_sequence = 0, candidate = NULL, candidate_at = NULL, holders = NULL`,
		`INSERT INTO outbox_ready (global_sequence, partition_key, stream_id, topic)
		 SELECT global_sequence, partition_key, stream_id, topic FROM bench_pointers ORDER BY global_sequence`,
		`UPDATE outbox_partitions SET lease_epoch = 0, delivered = 0, fence_sequence = 0, stream_sequence = 0, lease_until = NULL,
		        lease_owner = NULL, released_by = NULL, carrying = false, crashes = 0, paused_at = `+pause,
		`VACUUM (ANALYZE) outbox_ready`, `VACUUM (ANALYZE) outbox_partitions`, `CHECKPOINT`,
	)
}

// shorten removes the events that were appended to the seeded ones.
func (d *database) shorten(ctx context.Context) error {
	if d.events == 0 {
		return d.execute(ctx, `TRUNCATE events RESTART IDENTITY`)
	}
	var last int
	if err := d.pool.QueryRow(ctx, `SELECT max(sequence) FROM events`).Scan(&last); err != nil {
		return fmt.Errorf("look at the events: %w", err)
	}
	if last <= d.events {
		return nil
	}
	return d.execute(ctx, `DELETE FROM events WHERE sequence > `+strconv.Itoa(d.events), `VACUUM (ANALYZE) events`)
}

// resume ends the pause and returns its time.
func (d *database) resume(ctx context.Context) (time.Time, error) {
	err := d.execute(ctx, `UPDATE outbox_partitions SET paused_at = NULL`)
	return time.Now(), err
}

// empty reports whether no event waits.
func (d *database) empty(ctx context.Context) (empty bool, err error) {
	if err := d.pool.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM outbox)`).Scan(&empty); err != nil {
		return false, fmt.Errorf("look into the outbox: %w", err)
	}
	return empty, nil
}

// shared reports whether that many workers own all partitions together.
func (d *database) shared(ctx context.Context, workers int) (bool, error) {
	var owned, owners int
	err := d.pool.QueryRow(ctx, `SELECT count(lease_owner), count(DISTINCT lease_owner) FROM outbox_partitions WHERE lease_until > clock_timestamp()`).
		Scan(&owned, &owners)
	if err != nil {
		return false, fmt.Errorf("look at the leases: %w", err)
	}
	return owned == d.partitions && owners == workers, nil
}
