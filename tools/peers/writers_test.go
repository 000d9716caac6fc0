package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/chaos"
	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/partition"
	"github.com/postrider/postrider/tools/bench/measure"
)

// The load: about 200 events a second, which River publishes one at a time.
const (
	writerCount   = 8
	writerPace    = 80 * time.Millisecond
	writerStreams = 50
	writerTimeout = 10 * time.Second
	// mostAccounts is how many accounts a transaction may change, and how many events it may have.
	mostAccounts = 3
)

// writersOwn makes tables that are the application's: each stream has a row, which a transaction that appends to it has locked.
func writersOwn() string {
	return fmt.Sprintf(`CREATE SEQUENCE numbers;
		CREATE TABLE accounts (id text PRIMARY KEY, version bigint NOT NULL);
		INSERT INTO accounts SELECT 'account-' || n, 0 FROM generate_series(0, %d) AS n`, writerStreams-1)
}

// writers are the producers of a run, past the proxies. They tell the ledger every outcome.
type writers struct {
	pool    *pgxpool.Pool
	insert  insertion
	ledger  *ledger.Ledger
	apart   bool // the events of a transaction are of different accounts
	stop    context.CancelFunc
	running sync.WaitGroup
}

func startWriters(t *testing.T, c *clustertest.Cluster, r relay, accounts int) *writers {
	t.Helper()
	insert, err := r.insert()
	if err != nil {
		t.Fatal(err)
	}
	config, err := pgxpool.ParseConfig(c.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = writerCount
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	w := &writers{pool: pool, insert: insert, ledger: c.Ledger, apart: accounts > 1, stop: stop}
	for range writerCount {
		w.running.Go(func() { w.write(ctx) })
	}
	t.Cleanup(func() { w.end(); pool.Close() })
	return w
}

// end ends the writers after their transaction under way.
func (w *writers) end() {
	w.stop()
	w.running.Wait()
}

func (w *writers) write(ctx context.Context) {
	pace := time.NewTicker(writerPace)
	defer pace.Stop()
	for ctx.Err() == nil {
		w.transaction(context.WithoutCancel(ctx)) // what is under way is ended: its outcome belongs into the ledger
		select {
		case <-ctx.Done():
		case <-pace.C:
		}
	}
}

// transaction changes accounts, with an event for each change; one of ten is rolled back. Without a database nothing happens.
func (w *writers) transaction(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, writerTimeout)
	defer cancel()
	tx, err := w.pool.Begin(ctx)
	if err != nil {
		return
	}
	defer tx.Rollback(ctx)
	accounts := rand.Perm(writerStreams)[:1+rand.IntN(mostAccounts)]
	if !w.apart {
		accounts = slices.Repeat(accounts[:1], len(accounts))
	}
	slices.Sort(accounts) // so that no two transactions wait for each other
	entries := make([]ledger.Entry, len(accounts))
	for i, n := range accounts {
		if entries[i], err = w.change(ctx, tx, "account-"+strconv.Itoa(n)); err != nil {
			return
		}
	}
	w.ledger.Begin(entries)
	if rand.IntN(10) == 0 {
		w.ledger.Failed(entries)
		return
	}
	switch err := tx.Commit(ctx); {
	case err == nil:
		w.ledger.Committed(entries, time.Now())
	case chaos.CertainlyNot(err):
		w.ledger.Failed(entries)
	default:
		w.ledger.Unknown(entries)
	}
}

func (w *writers) change(ctx context.Context, tx pgx.Tx, stream string) (ledger.Entry, error) {
	e := measure.PeerEvent{ID: uuid.New(), Stream: stream, Type: "account.changed", Partition: partition.Of(stream, clustertest.DefaultPartitions)}
	if err := tx.QueryRow(ctx, `UPDATE accounts SET version = version + 1 WHERE id = $1 RETURNING version`, stream).Scan(&e.Version); err != nil {
		return ledger.Entry{}, err
	}
	e.Payload = fmt.Sprintf(`{"version":%d,"filling":"%x"}`, e.Version, make([]byte, rand.IntN(200)))
	if err := w.insert(ctx, tx, &e); err != nil {
		return ledger.Entry{}, err
	}
	return ledger.Entry{
		EventID: e.ID, Stream: e.Stream, Version: e.Version, Sequence: e.Sequence, Partition: e.Partition, BodyHash: ledger.HashBody([]byte(e.Payload)),
	}, nil
}
