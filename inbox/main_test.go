package inbox_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/message"
)

// TestMain runs the tests, or is one of the readers that they start as processes of their own.
func TestMain(m *testing.M) {
	if os.Getenv(readerVariable) != "" {
		if err := readerProcess(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "reader:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	clustertest.Main(m)
}

// bundle is an inbox on a database of its own, with a table of effects.
type bundle struct {
	pool *pgxpool.Pool
	box  *inbox.Inbox
}

func newBundle(t testing.TB, change ...func(*inbox.Config)) *bundle {
	t.Helper()
	pool := pgtest.Pool(t, pgtest.URL(t))
	prepare(t, pool)
	config := inbox.Config{Name: "test", BackoffBase: time.Millisecond, BackoffMax: time.Millisecond, Jitter: inbox.JitterNone}
	for _, c := range change {
		c(&config)
	}
	box, err := inbox.New(pool, config)
	if err != nil {
		t.Fatal(err)
	}
	return &bundle{pool: pool, box: box}
}

// inbox is another consumer of the same database.
func (b *bundle) inbox(t testing.TB, name string) *inbox.Inbox {
	t.Helper()
	box, err := inbox.New(b.pool, inbox.Config{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return box
}

func prepare(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	if err := inbox.Migrate(t.Context(), pool, "public"); err != nil {
		t.Fatal(err)
	}
	_, err := pool.Exec(t.Context(), `CREATE TABLE effects (
		id bigint GENERATED ALWAYS AS IDENTITY, stream text, version bigint, event_id uuid)`)
	if err != nil {
		t.Fatal(err)
	}
}

// apply is a handler whose effect is one row.
func apply(ctx context.Context, tx pgx.Tx, m message.Message) ([]byte, error) {
	_, err := tx.Exec(ctx, `INSERT INTO effects (stream, version, event_id) VALUES ($1, $2, $3)`, m.Stream, m.Version, m.EventID)
	return []byte("result " + strconv.FormatInt(m.Version, 10)), err
}

// event is a message that looks as if it were published; the same arguments give the same one.
func event(stream string, version int64) message.Message {
	return message.Message{
		EventID: uuid.NewSHA1(uuid.Nil, fmt.Appendf(nil, "%s/%d", stream, version)), Stream: stream, Version: version, Type: "tested",
		Sequence: 100 * version, Partition: 3, Subject: "events.test.tested", Payload: []byte(`{}`),
	}
}

func changed(m message.Message, change func(*message.Message)) message.Message {
	change(&m)
	return m
}

// process deals with one message and fails the test when nothing is recorded.
func (b *bundle) process(t testing.TB, m message.Message, handle inbox.Handler) inbox.Outcome {
	t.Helper()
	o, err := b.box.Process(t.Context(), m, handle)
	if err != nil {
		t.Fatalf("process %s version %d: %v", m.Stream, m.Version, err)
	}
	return o
}

// effects are the versions of a stream in the order of their effects.
func (b *bundle) effects(t testing.TB, stream string) []int64 {
	t.Helper()
	rows, err := b.pool.Query(t.Context(), `SELECT version FROM effects WHERE stream = $1 ORDER BY id`, stream)
	if err != nil {
		t.Fatal(err)
	}
	versions, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		t.Fatal(err)
	}
	return versions
}
