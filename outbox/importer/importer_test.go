package importer_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/outbox/importer"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// history is the file of real events in the repository, and its size.
const (
	history             = "../../testdata/repo-history-12k.jsonl.gz"
	historyEvents       = 11992
	historyTransactions = 2327
)

type bundle struct {
	pool   *pgxpool.Pool
	config importer.Config
}

func setup(tb testing.TB) *bundle {
	tb.Helper()
	pool := pgtest.Pool(tb, pgtest.Migrated(tb, 8))
	producer, err := outbox.New(outbox.Config{Schema: "public"})
	if err != nil {
		tb.Fatal(err)
	}
	return &bundle{pool: pool, config: importer.Config{Pool: pool, Producer: producer}}
}

func (b *bundle) run(ctx context.Context, tb testing.TB, file []byte) (importer.Progress, error) {
	tb.Helper()
	i, err := importer.New(b.config)
	if err != nil {
		tb.Fatal(err)
	}
	return i.Run(ctx, bytes.NewReader(file), "events.jsonl")
}

func (b *bundle) mustRun(tb testing.TB, file []byte) importer.Progress {
	tb.Helper()
	result, err := b.run(tb.Context(), tb, file)
	if err != nil {
		tb.Fatal(err)
	}
	return result
}

// count returns a query's number.
func (b *bundle) count(tb testing.TB, query string) (n int) {
	tb.Helper()
	if err := b.pool.QueryRow(tb.Context(), query).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

func read(tb testing.TB, path string) []byte {
	tb.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return content
}

func compress(tb testing.TB, content []byte) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(content); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func decompress(tb testing.TB, content []byte) []byte {
	tb.Helper()
	r, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		tb.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := b.ReadFrom(r); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func event(tx int, stream string, version int) string {
	return fmt.Sprintf(`{"tx":%d,"stream":%q,"version":%d,"type":"changed","occurred_at":"2024-04-09T12:24:57+02:00","payload":{"n":  %d, "ü":"\u00fc"}}`+"\n",
		tx, stream, version, version)
}

func TestImportOfRealEvents(t *testing.T) {
	t.Parallel()
	b := setup(t)
	file := read(t, history)
	var told int
	b.config.OnCommitted = func(tx importer.Transaction) {
		if len(tx.Events) != len(tx.Appended) || tx.CommittedAt.IsZero() {
			t.Errorf("transaction %d: %d events, %d appended", tx.Number, len(tx.Events), len(tx.Appended))
		}
		told += len(tx.Appended)
	}
	var last importer.Progress
	b.config.Progress = func(p importer.Progress) {
		if p.Lines < last.Lines || p.Events < last.Events || p.BytesRead < last.BytesRead {
			t.Errorf("progress goes back: %+v after %+v", p, last)
		}
		last = p
	}
	i, err := importer.New(b.config)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := os.Open(history)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = opened.Close() })
	result, err := i.Run(t.Context(), opened, history)
	if err != nil {
		t.Fatal(err)
	}
	if result.Events != historyEvents || result.Transactions != historyTransactions || result.Skipped != 0 ||
		result.Lines != historyEvents || told != historyEvents {
		t.Errorf("%+v, told of %d", result, told)
	}
	if last.BytesTotal != int64(len(file)) || last.BytesRead != last.BytesTotal || last.Events != historyEvents {
		t.Errorf("last progress: %+v", last)
	}
	if n := b.count(t, `SELECT count(DISTINCT xmin::text) FROM events`); n != historyTransactions {
		t.Errorf("%d database transactions, want %d", n, historyTransactions)
	}
	if n := b.count(t, `SELECT count(*) FROM outbox`); n != historyEvents {
		t.Errorf("%d pointer rows", n)
	}
	b.compare(t, decompress(t, file))

	last = importer.Progress{}
	again := b.mustRun(t, file)
	if again.Events != 0 || again.Transactions != 0 || again.Skipped != historyEvents {
		t.Errorf("rerun: %+v", again)
	}
	if n := b.count(t, `SELECT count(*) FROM events`); n != historyEvents {
		t.Errorf("%d events after a rerun", n)
	}
}

// compare demands that the database holds exactly the lines of the file, in
// their order and byte for byte.
func (b *bundle) compare(t *testing.T, file []byte) {
	t.Helper()
	rows, err := b.pool.Query(t.Context(), `SELECT format('"stream":%s,"version":%s,"type":%s,"occurred_at":', to_json(stream_id), stream_version, to_json(event_type)),
		'"payload":' || convert_from(payload, 'UTF8') || '}' FROM events ORDER BY sequence`)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(file)), "\n")
	var head, tail string
	n := 0
	_, err = pgx.ForEachRow(rows, []any{&head, &tail}, func() error {
		if n >= len(lines) || !strings.Contains(lines[n], head) || !strings.HasSuffix(lines[n], tail) {
			return fmt.Errorf("event %d is %s…%s", n+1, head, tail)
		}
		n++
		return nil
	})
	if err != nil || n != len(lines) {
		t.Errorf("%d of %d lines as in the file: %v", n, len(lines), err)
	}
}

func TestCancelledImportIsCompletedByAnother(t *testing.T) {
	t.Parallel()
	b := setup(t)
	file := read(t, history)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	stop := errors.New("enough")
	b.config.OnCommitted = func(tx importer.Transaction) {
		if tx.Number == 1234 {
			cancel(stop)
		}
	}
	first, err := b.run(ctx, t, file)
	if !errors.Is(err, stop) || first.Events == 0 || first.Events >= historyEvents {
		t.Fatalf("%+v, %v", first, err)
	}
	if n := b.count(t, `SELECT count(*) FROM events`); n != first.Events {
		t.Errorf("%d events in the database, %d reported", n, first.Events)
	}
	second := b.mustRun(t, file)
	if first.Events+second.Events != historyEvents || second.Skipped != first.Events {
		t.Errorf("first %+v, second %+v", first, second)
	}
	b.compare(t, decompress(t, file))
}

func TestPartlyPresentTransactionIsCompleted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.mustRun(t, []byte(event(7, "a", 1)+event(7, "b", 1)))
	result := b.mustRun(t, []byte(event(1, "a", 1)+event(1, "b", 1)+event(1, "a", 2)+event(1, "c", 1)+event(2, "c", 2)))
	if result.Events != 3 || result.Skipped != 2 || result.Transactions != 2 {
		t.Errorf("%+v", result)
	}
}

func TestLargeTransactionIsOne(t *testing.T) {
	t.Parallel()
	const events = 1700
	b := setup(t)
	var file strings.Builder
	file.WriteString(event(1, "before", 1))
	for n := range events {
		file.WriteString(event(2, fmt.Sprintf("s%d", n%1000), 1+n/1000))
	}
	file.WriteString(event(3, "after", 1))
	result := b.mustRun(t, []byte(file.String()))
	if result.Transactions != 3 || result.Events != events+2 {
		t.Errorf("%+v", result)
	}
	if n := b.count(t, `SELECT max(n) FROM (SELECT count(*) AS n FROM events GROUP BY xmin::text) AS sizes`); n != events {
		t.Errorf("the largest transaction has %d events", n)
	}
	b.compare(t, []byte(file.String()))
}

func TestFormsOfAFile(t *testing.T) {
	t.Parallel()
	one, two := []byte(event(1, "a", 1)), []byte(event(2, "a", 2))
	for name, file := range map[string][]byte{
		"plain":               append(bytes.Clone(one), two...),
		"no newline at end":   bytes.TrimSpace(append(bytes.Clone(one), two...)),
		"blank lines and CR":  []byte("\n" + strings.ReplaceAll(string(one), "\n", "\r\n\n") + string(two) + "\n \n"),
		"gzip":                compress(t, append(bytes.Clone(one), two...)),
		"gzip of two members": append(compress(t, one), compress(t, two)...),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			if result := b.mustRun(t, file); result.Events != 2 {
				t.Errorf("%+v", result)
			}
			b.compare(t, append(bytes.Clone(one), two...))
		})
	}
	b := setup(t)
	if result := b.mustRun(t, nil); result.Lines != 0 || result.Events != 0 {
		t.Errorf("empty: %+v", result)
	}
}

func TestRateIsKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.Rate = 100
	var file strings.Builder
	for n := range 40 {
		file.WriteString(event(n, "a", n+1))
	}
	result := b.mustRun(t, []byte(file.String()))
	// 40 events at 100 a second, less the first and the slack of 100 ms.
	if result.Elapsed.Seconds() < 0.28 {
		t.Errorf("took %v", result.Elapsed)
	}
}
