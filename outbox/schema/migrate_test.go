package schema_test

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/outbox/schema"
)

func migrator(t *testing.T, cfg schema.Config) *schema.Migrator {
	t.Helper()
	m, err := schema.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func one[T any](t testing.TB, conn *pgx.Conn, sql string, args ...any) T {
	t.Helper()
	var value T
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

func run(t testing.TB, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// objects counts what the schema holds, so that "everything is gone" can be said.
const objects = `SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = n.oid) + (SELECT count(*) FROM pg_proc WHERE pronamespace = n.oid)
                   FROM pg_namespace AS n WHERE nspname = $1`

func TestUpDownUp(t *testing.T) {
	t.Parallel()
	// A name in mixed case, a reserved word, and the longest one.
	for _, name := range []string{"public", "MixedCase", "select", "_" + strings.Repeat("x", 62)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			conn := connect(t, url)
			m := migrator(t, schema.Config{DatabaseURL: url, Schema: name, Partitions: 8})
			if _, err := m.Check(t.Context(), conn); !errors.Is(err, schema.ErrNotMigrated) || !strings.Contains(err.Error(), "postrider migrate up") ||
				name != schema.DefaultSchema && !strings.Contains(err.Error(), " --schema "+name+"`") {
				t.Fatalf("Check before Up: %v", err)
			}
			for range 2 {
				if err := m.Up(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := m.Up(t.Context()); err != nil {
					t.Fatalf("second Up: %v", err)
				}
				info, err := m.Check(t.Context(), conn)
				if err != nil || info.Partitions != 8 || info.MaxPayloadBytes != 8<<20 {
					t.Fatalf("Check = %+v, %v", info, err)
				}
				quoted := pgx.Identifier{name}.Sanitize()
				if n := one[int](t, conn, `SELECT count(*) FROM `+quoted+`.outbox_partitions`); n != 8 {
					t.Errorf("%d partitions, want 8", n)
				}
				run(t, conn, `SELECT `+quoted+`.outbox_append('s', 't', '{}')`)
				run(t, conn, `DELETE FROM `+quoted+`.outbox`)
				if err := m.Down(t.Context()); err != nil {
					t.Fatal(err)
				}
				if n := one[int](t, conn, objects, name); n != 0 {
					t.Errorf("%d objects left after Down", n)
				}
			}
			if err := m.Down(t.Context()); err != nil {
				t.Errorf("Down on nothing: %v", err)
			}
		})
	}
}

// What somebody chose is kept by those who migrate again: an outbox may need what it has.
func TestALargestPayloadInUseIsKept(t *testing.T) {
	t.Parallel()
	url := pgtest.Migrated(t, 4)
	conn := connect(t, url)
	const stored = `SELECT max_payload_bytes FROM outbox_settings`
	if got := one[int64](t, conn, stored); got != 8<<20 {
		t.Errorf("a new outbox takes payloads of %d bytes", got)
	}
	for _, step := range []struct {
		chosen      int64
		holdsEvents bool
	}{{5 << 20, false}, {64 << 20, false}, {64 << 20, true}} {
		if step.holdsEvents {
			run(t, conn, `SELECT outbox_append('s', 't', '{}')`)
		}
		run(t, conn, `UPDATE outbox_settings SET max_payload_bytes = $1`, step.chosen)
		if err := migrator(t, schema.Config{DatabaseURL: url}).Up(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := one[int64](t, conn, stored); got != step.chosen {
			t.Errorf("%+v: it became %d", step, got)
		}
	}
}

func TestConcurrentUp(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	group, ctx := errgroup.WithContext(t.Context())
	for range 8 {
		group.Go(func() error {
			m, err := schema.New(schema.Config{DatabaseURL: url, Schema: "shared"})
			if err != nil {
				return err
			}
			return m.Up(ctx)
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	conn := connect(t, url)
	if n := one[int](t, conn, `SELECT count(*) FROM shared.outbox_partitions`); n != 64 {
		t.Errorf("%d partitions, want the default of 64", n)
	}
	if n := one[int](t, conn, `SELECT count(*) FROM shared.outbox_schema_version GROUP BY version_id ORDER BY 1 DESC LIMIT 1`); n != 1 {
		t.Errorf("a migration was recorded %d times", n)
	}
}

func TestConcurrentUpWithDifferentCounts(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	results := make(chan error, 4)
	for _, count := range []int{4, 5, 6, 7} {
		m := migrator(t, schema.Config{DatabaseURL: url, Partitions: count})
		go func() { results <- m.Up(t.Context()) }()
	}
	won := 0
	for range 4 {
		switch err := <-results; {
		case err == nil:
			won++
		case !errors.Is(err, schema.ErrPartitionMismatch):
			t.Errorf("Up: %v", err)
		}
	}
	if won != 1 {
		t.Errorf("%d of 4 counts were accepted, want 1", won)
	}
}

func TestTwoSchemasDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	for name, count := range map[string]int{"a": 3, "b": 5} {
		if err := migrator(t, schema.Config{DatabaseURL: url, Schema: name, Partitions: count}).Up(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	conn := connect(t, url)
	run(t, conn, `SELECT a.outbox_append('s', 't', '{}')`)
	if n := one[int](t, conn, `SELECT count(*) FROM b.outbox_messages`); n != 0 {
		t.Errorf("schema b has %d messages", n)
	}
	if err := migrator(t, schema.Config{DatabaseURL: url, Schema: "b"}).Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := one[int](t, conn, `SELECT count(*) FROM a.outbox_messages`); n != 1 {
		t.Errorf("schema a has %d messages", n)
	}
}

func TestPartitionCountIsFixed(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	if err := migrator(t, schema.Config{DatabaseURL: url, Partitions: 16}).Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn := connect(t, url)
	other := migrator(t, schema.Config{DatabaseURL: url, Partitions: 17})
	if err := other.Up(t.Context()); !errors.Is(err, schema.ErrPartitionMismatch) {
		t.Errorf("Up with another count: %v", err)
	}
	if _, err := other.Check(t.Context(), conn); !errors.Is(err, schema.ErrPartitionMismatch) {
		t.Errorf("Check with another count: %v", err)
	}
	unset := migrator(t, schema.Config{DatabaseURL: url})
	if err := unset.Up(t.Context()); err != nil {
		t.Errorf("Up without a count: %v", err)
	}
	if info, err := unset.Check(t.Context(), conn); err != nil || info.Partitions != 16 {
		t.Errorf("Check = %+v, %v", info, err)
	}
}

func TestOtherVersions(t *testing.T) {
	t.Parallel()
	url := pgtest.Migrated(t, 4)
	conn := connect(t, url)
	m := migrator(t, schema.Config{DatabaseURL: url})
	known := one[int64](t, conn, `SELECT max(version_id) FROM outbox_schema_version`)
	run(t, conn, `INSERT INTO outbox_schema_version (version_id, is_applied) VALUES (999, true)`)
	run(t, conn, `UPDATE outbox_settings SET usable_from = $1`, known) // what this binary knows suffices
	if info, err := m.Check(t.Context(), conn); err != nil || info.Version != 999 || info.Partitions != 4 {
		t.Errorf("Check of a newer schema that may be used: %+v, %v", info, err)
	}
	if err := m.Up(t.Context()); err != nil {
		t.Errorf("Up of a newer schema that may be used: %v", err)
	}
	run(t, conn, `UPDATE outbox_settings SET usable_from = $1`, known+1)
	if _, err := m.Check(t.Context(), conn); !errors.Is(err, schema.ErrNewer) {
		t.Errorf("Check of a newer schema: %v", err)
	}
	if err := m.Up(t.Context()); !errors.Is(err, schema.ErrNewer) {
		t.Errorf("Up of a newer schema: %v", err)
	}
	if err := m.Down(t.Context()); err == nil || one[int64](t, conn, `SELECT max(version_id) FROM outbox_schema_version`) != 999 {
		t.Errorf("Down of a newer schema, which this binary knows only a part of: %v", err)
	}
	steps, err := m.Status(t.Context())
	if err != nil || !steps[len(steps)-1].Applied || steps[len(steps)-1].Version != 999 {
		t.Errorf("Status = %+v, %v", steps, err)
	}
	run(t, conn, `DELETE FROM outbox_schema_version WHERE version_id > 1`)
	if _, err := m.Check(t.Context(), conn); !errors.Is(err, schema.ErrOutdated) {
		t.Errorf("Check of an older schema: %v", err)
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	m := migrator(t, schema.Config{DatabaseURL: url, Schema: "later"})
	before, err := m.Status(t.Context())
	if err != nil || len(before) == 0 || before[0].Applied {
		t.Fatalf("Status before Up = %+v, %v", before, err)
	}
	conn := connect(t, url)
	if one[bool](t, conn, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'later')`) {
		t.Error("Status created the schema")
	}
	if err := m.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	after, err := m.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range after {
		if !step.Applied || step.AppliedAt.IsZero() {
			t.Errorf("not applied: %+v", step)
		}
	}
}

// TestFailedMigrationLeavesNothing puts something in the way of the first
// migration's last statement.
func TestFailedMigrationLeavesNothing(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	conn := connect(t, url)
	run(t, conn, `CREATE TABLE outbox_throughput (mine int)`)
	if err := migrator(t, schema.Config{DatabaseURL: url}).Up(t.Context()); err == nil {
		t.Fatal("Up succeeded over a foreign table")
	}
	if one[bool](t, conn, `SELECT to_regclass('events') IS NOT NULL`) {
		t.Error("half a migration was left behind")
	}
	run(t, conn, `DROP TABLE outbox_throughput`)
	if err := migrator(t, schema.Config{DatabaseURL: url}).Up(t.Context()); err != nil {
		t.Errorf("Up after the repair: %v", err)
	}
}

func TestPrintRunsInPsql(t *testing.T) {
	t.Parallel()
	psql, err := exec.LookPath("psql")
	if err != nil {
		t.Skip("psql is not installed")
	}
	url := pgtest.URL(t)
	conn := connect(t, url)
	m := migrator(t, schema.Config{DatabaseURL: url, Schema: "By", Partitions: 12})
	for _, direction := range []schema.Direction{schema.Up, schema.Down} {
		var script bytes.Buffer
		if err := m.Print(&script, direction); err != nil {
			t.Fatal(err)
		}
		command := exec.CommandContext(t.Context(), psql, "--no-psqlrc", "--quiet", url)
		command.Stdin = &script
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("psql %s: %v\n%s", direction, err, output)
		}
		if direction == schema.Down {
			if n := one[int](t, conn, objects, "By"); n != 0 {
				t.Errorf("%d objects left", n)
			}
			continue
		}
		if info, err := m.Check(t.Context(), conn); err != nil || info.Partitions != 12 {
			t.Errorf("Check after the script: %+v, %v", info, err)
		}
		if err := m.Up(t.Context()); err != nil {
			t.Errorf("Up after the script: %v", err)
		}
	}
	if err := m.Print(&bytes.Buffer{}, "sideways"); !errors.Is(err, schema.ErrDirection) {
		t.Errorf("Print sideways: %v", err)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for _, bad := range []schema.Config{
		{Schema: "a.b"},
		{Schema: `a"b`},
		{Schema: "1a"},
		{Schema: "ä"},
		{Schema: strings.Repeat("x", 64)},
		{Schema: "a; DROP SCHEMA public"},
		{Partitions: -1},
		{Partitions: 32768},
		{ControlPrefix: "_INBOX"},
		{ControlPrefix: "_INBOX.fence"},
	} {
		if _, err := schema.New(bad); !errors.Is(err, schema.ErrConfig) {
			t.Errorf("New(%+v): %v", bad, err)
		}
	}
	m := migrator(t, schema.Config{})
	if err := m.Up(t.Context()); !errors.Is(err, schema.ErrConfig) || !strings.Contains(err.Error(), "DatabaseURL") {
		t.Errorf("Up without an address: %v", err)
	}
}

// Where the server has lz4, it is used for what the marks and the producers write.
func TestLongValuesAreCompressedFast(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.Migrated(t, 4))
	want := 0
	if one[bool](t, conn, `SELECT 'lz4' = ANY (enumvals) FROM pg_settings WHERE name = 'default_toast_compression'`) {
		want = 4
	}
	const compressed = `SELECT count(*) FROM pg_attribute
		WHERE attrelid IN ('outbox_deliveries'::regclass, 'events'::regclass) AND attcompression = 'l'`
	if n := one[int](t, conn, compressed); n != want {
		t.Errorf("%d columns are compressed with lz4, want %d", n, want)
	}
}

// An entry of the index on ready rows is written to the log with every event: 16 bytes of key, and not 24.
func TestTheKeyOfReadyRowsHasNoMoreThanItNeeds(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.Migrated(t, 4))
	const entry = `SELECT array_agg(attname ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'outbox_ready_pkey'::regclass`
	if got := one[[]string](t, conn, entry); !slices.Equal(got, []string{"partition_key", "global_sequence"}) {
		t.Errorf("the key of outbox_ready is %v", got)
	}
	// Of indexes that cost the same the planner takes the last one made.
	if !one[bool](t, conn, `SELECT 'outbox_parked_stream_idx'::regclass::oid > 'outbox_parked_pkey'::regclass::oid`) {
		t.Error("the index on the streams of parked rows was made before their key")
	}
}
