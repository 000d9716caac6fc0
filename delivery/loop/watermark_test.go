package loop_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/outbox/schema"
)

// Snapshots do not tell who has drawn a sequence, locks do. In each case a writer
// holds the lower sequence, a higher one is committed, and no snapshot lists that
// writer: a rule that relies on snapshots would pass it over.
func TestTheWatermarkStaysBelowAWriterThatNoSnapshotLists(t *testing.T) { //nolint:paralleltest // counts transactions
	// A snapshot ends at the last transaction that has completed: one that began
	// later runs above it.
	t.Run("above the snapshot", func(t *testing.T) { //nolint:paralleltest // the same
		b := setup(t, 1)
		for range 3 {
			early, late := b.begin(t), b.begin(t)
			for _, tx := range []pgx.Tx{early, late} {
				if _, err := tx.Exec(t.Context(), `SELECT pg_current_xact_id()`); err != nil {
					t.Fatal(err)
				}
			}
			low := appendIn(t, late, "s-late")
			high := appendIn(t, early, "s-early")
			if err := early.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.wantHeldBelow(t, low)
			if err := late.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.wantSafe(t, high)
		}
	})
	// The sequence is drawn before a trigger runs, the transaction's id is taken
	// after it.
	t.Run("without a transaction id", func(t *testing.T) { //nolint:paralleltest // the same
		b := setup(t, 1)
		b.exec(t, `CREATE FUNCTION wait_insert() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN IF NEW.stream_id = 's-late' THEN PERFORM pg_advisory_xact_lock(7); END IF; RETURN NEW; END $$`)
		b.exec(t, `CREATE TRIGGER wait BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION wait_insert()`)
		for range 3 {
			gate := b.begin(t)
			if _, err := gate.Exec(t.Context(), `SELECT pg_advisory_xact_lock(7)`); err != nil {
				t.Fatal(err)
			}
			drawn := make(chan int64, 1)
			go func() { drawn <- b.append(t, "s-late", `1`) }()
			b.until(t, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`, 1)
			high := b.append(t, "s-early", `2`)
			b.wantHeldBelow(t, high)
			if err := gate.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if low := <-drawn; low >= high {
				t.Fatalf("the writer that waited drew %d, the other one %d", low, high)
			}
			b.wantSafe(t, high)
		}
	})
}

// A prepared transaction has no process any more, and is a writer until it is
// committed or rolled back.
func TestTheWatermarkStaysBelowAPreparedTransaction(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"COMMIT", "ROLLBACK"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			b := setup(t, 1)
			prepared := b.begin(t)
			low := appendIn(t, prepared, "s-late")
			// Names of prepared transactions belong to the whole server.
			name := "watermark-" + uuid.NewString()
			if _, err := prepared.Exec(t.Context(), `PREPARE TRANSACTION '`+name+`'`); err != nil {
				t.Fatal(err)
			}
			high := b.append(t, "s-early", `1`)
			b.wantHeldBelow(t, low)
			b.exec(t, end+` PREPARED '`+name+`'`)
			b.wantSafe(t, high)
		})
	}
}

// While another worker's look has the row, nobody waits for it, and each goes by what it proves itself.
func TestTheWatermarkWaitsForNoOtherWorker(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	high := b.append(t, "s", `1`)
	other := b.begin(t)
	if _, err := other.Exec(t.Context(), `SELECT FROM outbox_watermark FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	b.wantSafe(t, high)
	if err := other.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.until(t, `SELECT safe_sequence FROM outbox_watermark`, 0) // it was kept by nobody
	b.wantSafe(t, high)
	b.until(t, `SELECT safe_sequence FROM outbox_watermark`, int(high))
}

// A scheduled event whose time has come waits for writers below it, as any other does.
func TestAScheduledEventWaitsForWritersBelowIt(t *testing.T) {
	t.Parallel()
	for _, policy := range []delivery.FailurePolicy{delivery.BehindStream, delivery.BehindNone} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			b := setup(t, 1)
			b.acquireAll(t, b.keeper)
			late := b.begin(t)
			low := appendIn(t, late, "s-late")
			scheduled := b.append(t, "s", `1`, "available_at => clock_timestamp() + interval '1 hour'")
			b.exec(t, `UPDATE outbox SET available_at = clock_timestamp() WHERE global_sequence = $1`, scheduled)
			relay := func() *loop.Relay { return b.relay(t, loop.Config{Failure: policy}) }
			b.drain(t, relay())
			if got := b.sequences(t); len(got) > 0 {
				t.Errorf("stored %v while a writer below was under way", got)
			}
			if err := late.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.succeed(t)
			b.start(t, relay())
			b.until(t, `SELECT count(*) FROM outbox`, 0)
			if got, want := b.sequences(t), texts(low, scheduled); !slices.Equal(got, want) {
				t.Errorf("stored %v, want %v", got, want)
			}
		})
	}
}

func (b *bundle) begin(t *testing.T) pgx.Tx {
	t.Helper()
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	return tx
}

// A claim relies on what it has proven, and tells when the watermark has come so far that it is worth to be stored.
func TestTheWatermarkIsStoredWhenItHasComeFar(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.acquireAll(t, b.keeper)
	var last int64
	for range 3 {
		last = b.append(t, "s", `1`)
	}
	l := b.keeper.Set().Held()[0]
	revision := b.takeRow(t, l)
	for _, c := range []struct {
		apart  int
		stored int64
	}{{int(last) + 1, 0}, {int(last), last}} {
		found, err := b.store.Claim(t.Context(), []delivery.Ask{{Lease: l, Revision: revision, After: math.MinInt64, Most: 10}},
			delivery.Limits{Total: 10, Watermark: true, Apart: c.apart}, delivery.BehindStream)
		if err != nil {
			t.Fatal(err)
		}
		if found.Watermark.Safe != last || len(found.Batches) != 1 || len(found.Batches[0].Messages) != 3 {
			t.Errorf("apart %d: the watermark is at %d, want %d; claimed %+v", c.apart, found.Watermark.Safe, last, found.Batches)
		}
		if found.Advance != (c.stored > 0) {
			t.Errorf("apart %d: it says %t", c.apart, found.Advance)
		}
		if w, err := b.store.Advance(t.Context(), c.apart); err != nil || w.Safe != last {
			t.Errorf("apart %d: stored, it is at %d: %v", c.apart, w.Safe, err)
		}
		b.until(t, `SELECT safe_sequence FROM outbox_watermark`, int(c.stored))
	}
}

// Where every sequence above what a session has proven is visible, nobody looks at the locks; a gap is one for as long as
// its writer is there.
func TestWhatIsWholeIsDecided(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.acquireAll(t, b.keeper)
	b.useOneSession(t)
	l := b.keeper.Set().Held()[0]
	revision := b.takeRow(t, l)
	look := func(want int64) {
		t.Helper()
		found, err := b.store.Claim(t.Context(), []delivery.Ask{{Lease: l, Revision: revision, After: math.MinInt64, Most: 1}},
			delivery.Limits{Total: 1, Watermark: true, Apart: math.MaxInt32}, delivery.BehindStream)
		if err != nil || found.Watermark.Safe != want {
			t.Fatalf("proven up to %d, want %d: %v", found.Watermark.Safe, want, err)
		}
	}
	look(b.append(t, "s", `1`))
	idle := b.begin(t)
	if _, err := idle.Exec(t.Context(), `LOCK TABLE events IN ROW EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	whole := b.append(t, "s", `2`)
	look(whole)
	late := b.begin(t)
	appendIn(t, late, "s-late")
	b.append(t, "s", `3`)
	look(whole)
	if err := late.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	look(whole) // the idle one holds a lock, and may have drawn what is missing
	if err := idle.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	look(whole + 2)
	look(b.append(t, "s", `4`))
}

// A pooler hands sessions around: what one outbox has proven in a session says nothing of another's sequences.
func TestOutboxesInOneSessionProveForThemselves(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	migrator, err := schema.New(schema.Config{DatabaseURL: b.pool.Config().ConnString(), Schema: "other", Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := migrator.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	one := b.useOneSession(t)
	other, err := pgstore.New(t.Context(), one, "other", pgstore.Relation{})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		b.append(t, "s", `1`)
	}
	b.wantSafe(t, 5)
	late := b.begin(t)
	if _, err := late.Exec(t.Context(), `SELECT other.outbox_append('s-late', 'thing.done', '{}')`); err != nil {
		t.Fatal(err)
	}
	b.exec(t, `SELECT other.outbox_append('s', 'thing.done', '{}')`)
	if w, err := other.Advance(t.Context(), 1); err != nil || w.Safe != 0 {
		t.Errorf("the other outbox is proven up to %d, want 0: %v", w.Safe, err)
	}
}

// wantHeldBelow tries several times to move the watermark: it must stay below the
// sequence.
func (b *bundle) wantHeldBelow(t *testing.T, sequence int64) {
	t.Helper()
	for range 4 {
		w, err := b.store.Advance(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if w.Safe >= sequence {
			t.Fatalf("the watermark is at %d while a writer at or below %d is under way", w.Safe, sequence)
		}
	}
}

// wantSafe moves the watermark, which nobody holds any more.
func (b *bundle) wantSafe(t *testing.T, sequence int64) {
	t.Helper()
	var safe int64
	for range 2 {
		w, err := b.store.Advance(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		safe = w.Safe
	}
	if safe != sequence {
		t.Errorf("the watermark is at %d, want %d", safe, sequence)
	}
}
