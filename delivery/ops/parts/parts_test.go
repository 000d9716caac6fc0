package parts_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/delivery/ops/parts"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/outbox/importer"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var who = parts.Who{Actor: "test", Reason: "a test"}

// bundle is an outbox whose events can be put into parts.
type bundle struct {
	pool     *pgxpool.Pool
	store    *parts.Store
	producer *outbox.Producer
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{pool: pgtest.Pool(t, pgtest.Migrated(t, 4))}
	var err error
	if b.store, err = parts.New(parts.Config{Pool: b.pool, Schema: "public", Patience: 10 * time.Second}); err != nil {
		t.Fatal(err)
	}
	if b.producer, err = outbox.New(outbox.Config{}); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bundle) append(t *testing.T, events ...outbox.Event) ([]outbox.Appended, error) {
	t.Helper()
	var appended []outbox.Appended
	err := pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) (err error) {
		appended, err = b.producer.AppendTx(t.Context(), tx, events...)
		return err
	})
	return appended, err
}

func event(stream string) outbox.Event {
	return outbox.Event{StreamID: stream, Type: "happened", Payload: []byte(`{"a":1}`), AuditOnly: true}
}

func (b *bundle) must(t *testing.T, events ...outbox.Event) outbox.Appended {
	t.Helper()
	appended, err := b.append(t, events...)
	if err != nil {
		t.Fatal(err)
	}
	return appended[len(appended)-1]
}

func (b *bundle) split(t *testing.T) {
	t.Helper()
	if done, err := b.store.Split(t.Context(), who); err != nil || !done {
		t.Fatalf("split: %v, %v", done, err)
	}
}

func (b *bundle) begin(t *testing.T) int64 {
	t.Helper()
	part, begun, err := b.store.Begin(t.Context(), who)
	if err != nil || !begun {
		t.Fatalf("begin: %v, %v", begun, err)
	}
	return part
}

func (b *bundle) parts(t *testing.T) []parts.Part {
	t.Helper()
	list, err := b.store.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// open begins a transaction, which ends with the test if not before.
func (b *bundle) open(t *testing.T) pgx.Tx {
	t.Helper()
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

func get[T any](t *testing.T, b *bundle, sql string, args ...any) (v T) {
	t.Helper()
	if err := b.pool.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSequencesVersionsAndIdsGoOnOverParts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := uuid.Must(uuid.NewV7())
	first := b.must(t, outbox.Event{ID: id, StreamID: "s", Type: "t", Payload: []byte(`1`)})
	b.split(t)
	second := b.must(t, event("s"))
	if second.Sequence != first.Sequence+1 || second.StreamVersion != 2 {
		t.Errorf("behind the split: %+v", second)
	}
	if part := b.begin(t); part != 1 {
		t.Errorf("the second part is %d", part)
	}
	third := b.must(t, event("s"))
	if third.Sequence != 1_000_000_000_000 || third.StreamVersion != 3 {
		t.Errorf("in the next part: %+v", third)
	}
	if _, err := b.append(t, outbox.Event{ID: id, StreamID: "other", Type: "t"}); !errors.Is(err, outbox.ErrDuplicateEvent) {
		t.Errorf("an id of another part: %v", err)
	}
	if _, err := b.append(t, event("x"), outbox.Event{ID: id, StreamID: "other", Type: "t"}); !errors.Is(err, outbox.ErrDuplicateEvent) {
		t.Errorf("an id of another part, in a batch: %v", err)
	}
	if n := get[int](t, b, `SELECT count(*) FROM outbox_messages WHERE stream_id = 's'`); n != 1 {
		t.Errorf("the view shows %d messages of the stream", n)
	}
	if !get[bool](t, b, `SELECT relkind = 'p' FROM pg_class WHERE oid = 'events'::regclass`) {
		t.Error("events is no partitioned table")
	}
}

func TestAnEmptyPartIsNotLeft(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.split(t)
	if _, begun, err := b.store.Begin(t.Context(), who); err != nil || begun {
		t.Errorf("begun: %v, %v", begun, err)
	}
	if done, err := b.store.Split(t.Context(), who); err != nil || done {
		t.Errorf("split again: %v, %v", done, err)
	}
}

func TestRightsGoOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	role := "parts_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	t.Cleanup(func() { _, _ = b.pool.Exec(context.Background(), `DROP OWNED BY `+role+`; DROP ROLE `+role) })
	for _, sql := range []string{`CREATE ROLE ` + role, `GRANT SELECT ON events TO ` + role, `GRANT INSERT (stream_id, stream_version, event_type, payload) ON events TO ` + role} {
		if _, err := b.pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	before := get[string](t, b, `SELECT string_agg(grantee || privilege_type || column_name, ',' ORDER BY grantee, privilege_type, column_name)
		FROM information_schema.column_privileges WHERE table_name = 'events'`)
	b.split(t)
	after := get[string](t, b, `SELECT string_agg(grantee || privilege_type || column_name, ',' ORDER BY grantee, privilege_type, column_name)
		FROM information_schema.column_privileges WHERE table_name = 'events'`)
	if before != after {
		t.Errorf("rights were\n%s\nand are\n%s", before, after)
	}
}

func TestWhatWouldBeLeftBehindIsNamed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, sql := range []string{
		`CREATE VIEW mine AS SELECT sequence FROM events`,
		`CREATE TABLE notes (event bigint REFERENCES events)`,
		`CREATE FUNCTION seen() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`,
		`CREATE TRIGGER watcher AFTER INSERT ON events FOR EACH ROW EXECUTE FUNCTION seen()`,
		`CREATE FUNCTION newest() RETURNS bigint LANGUAGE sql RETURN (SELECT max(sequence) FROM events)`,
		`ALTER TABLE events ALTER COLUMN sequence RESTART WITH 900000000000`,
	} {
		if _, err := b.pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	_, err := b.store.Split(t.Context(), who)
	if err == nil {
		t.Fatal("events were put into parts")
	}
	for _, name := range []string{"view public.mine", "foreign key", "trigger watcher", "function public.newest()", "about to pass 10^12"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%q is not named: %v", name, err)
		}
	}
}

func TestOldPartsGoAndTheirStreamsGoOn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.must(t, event("ended"), event("ended"), event("lives"))
	b.split(t)
	b.begin(t)
	b.must(t, event("lives"))
	if err := b.store.Drop(t.Context(), b.parts(t)[0], parts.Archived{}, who); err != nil {
		t.Fatal(err)
	}
	if n := get[int](t, b, `SELECT count(*) FROM events`); n != 1 {
		t.Errorf("%d events are left", n)
	}
	if v := b.must(t, event("ended")).StreamVersion; v != 3 {
		t.Errorf("the stream goes on at version %d", v)
	}
	if v := b.must(t, event("x"), event("ended")).StreamVersion; v != 4 {
		t.Errorf("the stream goes on at version %d", v)
	}
	if heads := get[int](t, b, `SELECT count(*) FROM outbox_stream_heads`); heads != 1 {
		t.Errorf("%d heads were noted", heads)
	}
	if from := get[int64](t, b, `SELECT events_from FROM outbox_settings`); from != 1_000_000_000_000 {
		t.Errorf("events are from %d", from)
	}
}

func TestWhatIsNeededIsNotDropped(t *testing.T) {
	t.Parallel()
	b := setup(t)
	waits := event("s")
	waits.AuditOnly = false
	b.must(t, waits)
	b.split(t)
	refused := func(says string) {
		t.Helper()
		if err := b.store.Drop(t.Context(), b.parts(t)[0], parts.Archived{}, who); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("dropping the oldest part: %v, want %q", err, says)
		}
	}
	refused("the newest event must stay")
	b.begin(t)
	refused("the newest event must stay")
	b.must(t, event("t"))
	refused("event 1 waits in the outbox")
	if _, err := b.pool.Exec(t.Context(), `DELETE FROM outbox_partitions`); err != nil { // as by a hand; sync puts them back
		t.Fatal(err)
	}
	refused("event 1 waits in the outbox")
	if err := b.store.Drop(t.Context(), b.parts(t)[1], parts.Archived{}, who); err == nil || !strings.Contains(err.Error(), "the oldest part is 0") {
		t.Errorf("dropping another part: %v", err)
	}
}

// A part that begins waits for whoever has looked for ids and versions and writes on.
func TestAPartBeginsBehindWhoeverAppends(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.split(t)
	b.must(t, event("s"))
	tx := b.open(t)
	if _, err := b.producer.AppendTx(t.Context(), tx, event("s")); err != nil {
		t.Fatal(err)
	}
	hasty, err := parts.New(parts.Config{Pool: b.pool, Schema: "public", Patience: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := hasty.Begin(t.Context(), who); err == nil || !strings.Contains(err.Error(), "held now by pid") {
		t.Fatalf("beginning beside a writer: %v", err)
	}
	if _, err := tx.Exec(t.Context(), `PREPARE TRANSACTION 'later'`); err != nil {
		t.Fatal(err)
	}
	if _, _, err := hasty.Begin(t.Context(), who); err == nil || !strings.Contains(err.Error(), "held now by a prepared transaction (pg_prepared_xacts)") {
		t.Errorf("beginning beside a writer that has prepared: %v", err)
	}
	if _, err := b.pool.Exec(t.Context(), `COMMIT PREPARED 'later'`); err != nil {
		t.Fatal(err)
	}
	b.begin(t)
}

// Who only works on the part that is to be dropped, as a vacuum does, is named, too.
func TestWhoHoldsAPartIsNamed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.split(t)
	b.must(t, event("s"))
	b.begin(t)
	b.must(t, event("t"))
	if _, err := b.pool.Exec(t.Context(), `DELETE FROM outbox`); err != nil {
		t.Fatal(err)
	}
	tx := b.open(t)
	if _, err := tx.Exec(t.Context(), `LOCK TABLE ONLY events_0 IN SHARE UPDATE EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	hasty, err := parts.New(parts.Config{Pool: b.pool, Schema: "public", Patience: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	drop := func() error { return hasty.Drop(t.Context(), b.parts(t)[0], parts.Archived{}, who) }
	if err := drop(); err == nil || !strings.Contains(err.Error(), "held now by pid") {
		t.Fatalf("dropping a part that is worked on: %v", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := drop(); err != nil {
		t.Error(err)
	}
}

func TestAnArchiveIsReadBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	full := outbox.Event{
		ID: uuid.Must(uuid.NewV7()), StreamID: "s", Type: "t", Topic: "orders", TenantID: "acme", PartitionKey: "k", Payload: []byte{0, 1, '\n'},
		Metadata:   outbox.Metadata{TraceParent: "00-1", CorrelationID: "c", Headers: map[string]string{"A": "b"}},
		OccurredAt: time.Now().Add(-time.Hour).Truncate(time.Microsecond).UTC(),
	}
	b.must(t, full, event("s"), outbox.Event{StreamID: "u", Type: "t", Payload: []byte(` {"spaces": "kept"} `)}, outbox.Event{StreamID: "empty", Type: "t"})
	b.split(t)
	folder := t.TempDir()
	archived, err := b.store.Archive(t.Context(), b.parts(t)[0], folder)
	if err != nil || archived.Events != 4 {
		t.Fatalf("%+v: %v", archived, err)
	}
	name := archived.File
	const columns = `SELECT string_agg(concat_ws('|', event_id, stream_id, stream_version, event_type, topic, tenant_id, routing_key, metadata, audit_only,
		occurred_at, encode(payload, 'hex')), E'\n' ORDER BY sequence) FROM events`
	want := get[string](t, b, columns)

	other := setup(t)
	im, err := importer.New(importer.Config{Pool: other.pool, Producer: other.producer})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time nothing is new
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := im.Run(t.Context(), file, name); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := get[string](t, other, columns); got != want {
		t.Errorf("events were\n%s\nand are\n%s", want, got)
	}
	if left, err := filepath.Glob(filepath.Join(folder, "*.unfinished")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// Whoever waits for another writer of his stream, and has not looked for its version yet, holds a part back, too.
func TestWhoWaitsForAStreamHoldsAPartBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.split(t)
	b.must(t, event("s"))
	tx := b.open(t)
	if _, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(hashtextextended('s', 'events'::regclass::oid::bigint))`); err != nil {
		t.Fatal(err)
	}
	waiting := func() bool {
		return get[bool](t, b, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`)
	}
	for _, sql := range []string{`SELECT outbox_append('s', 't', '{}')`, `SELECT outbox_append_batch('{s,s}', '{t,t}', '{x,x}')`} {
		waits := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := b.pool.Exec(ctx, sql)
			waits <- err
		}()
		for !waiting() {
			select {
			case err := <-waits:
				t.Fatalf("%s does not wait: %v", sql, err)
			default:
			}
		}
		if n := get[int](t, b, `SELECT count(*) FROM pg_locks WHERE relation = 'events'::regclass AND mode = 'RowExclusiveLock'`); n != 1 {
			t.Errorf("%s: %d locks hold a part back while it waits for the stream", sql, n)
		}
		cancel()
		if err := <-waits; err == nil {
			t.Errorf("%s did not wait", sql)
		}
		for waiting() { // the server ends it a little later
		}
	}
}
