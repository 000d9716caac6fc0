package gaps_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/delivery/ops/gaps"
	"github.com/postrider/postrider/delivery/ops/maintenance"
	"github.com/postrider/postrider/delivery/ops/parts"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/lease"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// bundle is an outbox with a broker and a worker without leasing.
type bundle struct {
	pool   *pgxpool.Pool
	js     jetstream.JetStream
	store  *gaps.Store
	stream gaps.Stream
	relay  func() *loop.Relay // a relay runs once
	keeper *lease.Keeper
	lost   delivery.Lost
	server *natstest.Server
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{pool: pgtest.Pool(t, pgtest.Migrated(t, 4))}
	server := natstest.Start(t, 1)
	b.server = server
	found := server.Stream(t, 1).CachedInfo()
	nc, err := wire.Connect(server.URL(), "test", slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if b.js, err = jetstream.New(nc); err != nil {
		t.Fatal(err)
	}
	subject, err := wire.ParseSubject(wire.DefaultSubject)
	if err != nil {
		t.Fatal(err)
	}
	if b.stream, err = streams.NewStreamReader(nc, "", streams.DefaultStream, subject); err != nil {
		t.Fatal(err)
	}
	if b.store, err = gaps.New(t.Context(), b.pool, "public", pgstore.Relation{}); err != nil {
		t.Fatal(err)
	}
	publisher, err := natspub.NewFenced(nc, natspub.FencedConfig{Control: streams.Control{Outbox: uuid.New()}, Found: found})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = publisher.Close() })
	deliveries, err := pgstore.New(t.Context(), b.pool, "public", pgstore.Relation{})
	if err != nil {
		t.Fatal(err)
	}
	b.relay = func() *loop.Relay {
		r, err := loop.NewRelay(loop.Config{Ordering: delivery.OrderStream, Lost: b.lost}, deliveries, publisher, loop.Silence{})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	leases, err := lease.NewStore(t.Context(), b.pool, "public")
	if err != nil {
		t.Fatal(err)
	}
	if b.keeper, err = lease.NewKeeper(leases, [16]byte{}, lease.Config{}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.keeper.AcquireSolo(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// drain delivers everything that can be delivered now.
func (b *bundle) drain(t *testing.T) {
	t.Helper()
	if err := b.relay().RunOnce(t.Context(), b.keeper.Set()); err != nil {
		t.Fatal(err)
	}
}

func (b *bundle) exec(t *testing.T, sql string, args ...any) int64 {
	t.Helper()
	tag, err := b.pool.Exec(t.Context(), sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return tag.RowsAffected()
}

func (b *bundle) append(t *testing.T, n int) {
	t.Helper()
	b.exec(t, `SELECT outbox_append_batch(array_agg('s-' || n % 10), array_agg('t'::text), array_agg('x'::bytea), published => array_agg(n % 20 <> 0))
		FROM generate_series(1, $1) AS n`, n)
}

func (b *bundle) detect(t *testing.T, o gaps.Options) []string {
	t.Helper()
	began := time.Now()
	r, err := b.store.Detect(t.Context(), o, b.stream)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d events, %d messages, %d deliveries, %v", time.Since(began), r.Events, r.Messages, r.Delivered, r.Notes)
	return texts(r.Gaps)
}

func texts(list []gaps.Gap) []string {
	var found []string
	for _, g := range list {
		if g.Kind == gaps.NoVersion {
			found = append(found, fmt.Sprintf("%s %s %d-%d", g.Kind, g.Stream, g.Version, g.Through))
			continue
		}
		found = append(found, fmt.Sprintf("%s %d", g.Kind, g.Sequence))
	}
	slices.Sort(found)
	return found
}

func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// Every kind of gap is made by hand and found; what can be mended is, once, and
// the rest is left alone.
func TestGapsAreFoundAndMended(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.append(t, 300)
	b.drain(t)
	want(t, b.detect(t, gaps.Options{}))
	b.append(t, 200) // 301 to 500
	b.exec(t, `DELETE FROM outbox WHERE global_sequence IN (310, 325, 326, 333, 334)`)
	b.exec(t, `INSERT INTO outbox_audit (actor, action, target) VALUES ('a', 'dead.discard', '{"sequences": [333]}'), ('a', 'scheduled.cancel', '{"sequences": [334]}')`)
	b.drain(t)
	// 41's history row goes, the batch keeps the others.
	b.exec(t, `UPDATE outbox_deliveries SET sequences = array_replace(sequences, 41, 42) WHERE 41 = ANY (sequences)`)
	stream, err := b.js.Stream(t.Context(), streams.DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	var position uint64
	if err := b.pool.QueryRow(t.Context(), `SELECT stream_sequence FROM outbox_messages WHERE global_sequence = 77`).Scan(&position); err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(t.Context(), position); err != nil {
		t.Fatal(err)
	}
	b.exec(t, `DELETE FROM events WHERE sequence = 133`) // version 14 of s-3
	b.exec(t, `INSERT INTO outbox (global_sequence, partition_key, stream_id) VALUES (9000, 2, 'nobody')`)
	if _, err := b.js.Publish(t.Context(), "events.a.b", []byte("foreign")); err != nil {
		t.Fatal(err)
	}
	all := []string{
		"never-enqueued 310", "never-enqueued 325", "never-enqueued 326", "unrecorded 41", "not-in-stream 77",
		"unknown-event 133", "unknown-event 0", "missing-version s-3 14-14", "pointer-without-event 9000",
	}
	want(t, b.detect(t, gaps.Options{}), all...)
	want(t, b.detect(t, gaps.Options{Kinds: []gaps.GapKind{gaps.NotInStream}}), "not-in-stream 77")
	want(t, b.detect(t, gaps.Options{From: 311, To: 325}), "never-enqueued 325")
	want(t, b.detect(t, gaps.Options{Stream: "s-5"}), "never-enqueued 325")

	repair := gaps.Repair{Actor: "test", Reason: "because", DryRun: true}
	for range 2 {
		done, err := b.store.Repair(t.Context(), repair, b.stream)
		if err != nil {
			t.Fatal(err)
		}
		want(t, texts(done.Queued), all[:3]...)
		if repair.DryRun {
			want(t, b.detect(t, gaps.Options{}), all...)
		}
		repair.DryRun = false
	}
	want(t, b.detect(t, gaps.Options{}), all[3:]...)
	repair.Kinds = []gaps.GapKind{gaps.NotInStream}
	for _, n := range []int{1, 0} { // it may be repeated
		done, err := b.store.Repair(t.Context(), repair, b.stream)
		if err != nil || len(done.Queued) != n {
			t.Errorf("queued %d, want %d: %v", len(done.Queued), n, err)
		}
	}
	b.drain(t)
	want(t, b.detect(t, gaps.Options{}), "unrecorded 41", "unknown-event 133", "unknown-event 0", "missing-version s-3 14-14", "pointer-without-event 9000")
	var audited, generation int
	if err := b.pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM outbox_audit WHERE action = 'gaps.repair'),
		(SELECT generation FROM outbox_messages WHERE global_sequence = 77)`).Scan(&audited, &generation); err != nil {
		t.Fatal(err)
	}
	if audited != 2 || generation != 1 {
		t.Errorf("%d repairs are in the audit, want 2; the lost message came back under generation %d, want 1", audited, generation)
	}
}

// While producers write and a worker publishes, nothing is a gap.
func TestNothingUnderWayIsAGap(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	relay := b.relay()
	go func() { ended <- relay.Run(ctx, b.keeper.Set()) }()
	for range 30 {
		b.append(t, 100)
		want(t, b.detect(t, gaps.Options{}))
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Where history and stream both forgot, nothing is said; and never repaired.
func TestWhatWasForgottenIsNotJudged(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.append(t, 100)
	b.drain(t)
	b.exec(t, `DELETE FROM outbox_deliveries`)
	if got := b.detect(t, gaps.Options{Kinds: []gaps.GapKind{gaps.NeverEnqueued}}); got != nil {
		t.Errorf("the stream holds everything, found %q", got)
	}
	stream, err := b.js.Stream(t.Context(), streams.DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context(), jetstream.WithPurgeSequence(50)); err != nil {
		t.Fatal(err)
	}
	want(t, b.detect(t, gaps.Options{Kinds: []gaps.GapKind{gaps.NeverEnqueued}}))
	b.append(t, 100)
	b.drain(t) // now the history begins here
	b.append(t, 10)
	b.exec(t, `DELETE FROM outbox WHERE global_sequence = 203`)
	want(t, b.detect(t, gaps.Options{Kinds: []gaps.GapKind{gaps.NeverEnqueued}}), "never-enqueued 203")
	if _, err := b.store.Repair(t.Context(), gaps.Repair{Actor: "a", Reason: "r"}, nil); !errors.Is(err, gaps.ErrNoStream) {
		t.Errorf("repaired without a stream: %v", err)
	}
	var input *maintenance.InputError
	if _, err := b.store.Repair(t.Context(), gaps.Repair{Options: gaps.Options{Kinds: []gaps.GapKind{gaps.UnknownEvent}}, Actor: "a", Reason: "r"}, b.stream); !errors.As(err, &input) {
		t.Errorf("repaired what cannot be: %v", err)
	}
}

// What was dropped with its part of the events is no gap, wherever it is missed. What is missing besides is found in later parts.
func TestDroppedPartsAreNoGaps(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store, err := parts.New(parts.Config{Pool: b.pool, Schema: "public"})
	if err != nil {
		t.Fatal(err)
	}
	who := parts.Who{Actor: "test", Reason: "a test"}
	b.append(t, 100)
	b.drain(t)
	if _, err := store.Split(t.Context(), who); err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.Begin(t.Context(), who); err != nil {
		t.Fatal(err)
	}
	b.append(t, 100)
	b.drain(t)
	want(t, b.detect(t, gaps.Options{}))
	list, err := store.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Drop(t.Context(), list[0], parts.Archived{}, who); err != nil {
		t.Fatal(err)
	}
	want(t, b.detect(t, gaps.Options{}))
	b.exec(t, `DELETE FROM events WHERE sequence = 1000000000050`)
	if found := b.detect(t, gaps.Options{Kinds: []gaps.GapKind{gaps.UnknownEvent}}); len(found) != 1 {
		t.Errorf("found %v, want the one that was not dropped", found)
	}
}
