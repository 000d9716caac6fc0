package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/partition"
)

// consumerVariable makes the test binary a consumer. It holds a consumerSettings.
const consumerVariable = "FAULTS_CONSUMER"

type consumerSettings struct{ Database, NATS string }

// consumerName is the name of all consumers: they share the lanes.
const consumerName = "soak"

// serveConsumer reads until SIGTERM.
func serveConsumer(ctx context.Context, text string) error {
	var s consumerSettings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return fmt.Errorf("%s: %w", consumerVariable, err)
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	pool, err := pgxpool.New(ctx, s.Database)
	if err != nil {
		return err
	}
	defer pool.Close()
	conn, err := nats.Connect(s.NATS, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	box, err := inbox.New(pool, inbox.Config{
		Name: consumerName, HandlerTimeout: ttl, // who is frozen amid a transaction holds its lane for a second more
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	c, err := inbox.NewConsumer(box, js, effect, inbox.ConsumerConfig{Lanes: 8, LeaseTTL: ttl})
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

// effect is a row, which shows a repetition.
func effect(ctx context.Context, tx pgx.Tx, m message.Message) ([]byte, error) {
	_, err := tx.Exec(ctx, `INSERT INTO effects (event_id, stream, version, sequence, partition, body) VALUES ($1, $2, $3, $4, $5, $6)`,
		m.EventID, m.Stream, m.Version, m.Sequence, m.Partition, int64(ledger.HashBody(m.Payload)))
	return nil, err
}

// consumers are processes that share a consumer, with a database of their own.
type consumers struct {
	database *localpg.Server
	pool     *pgxpool.Pool
	settings string
	started  int
	running  []*clustertest.Process
}

func startConsumers(t *testing.T, c *clustertest.Cluster, n int) *consumers {
	t.Helper()
	database := pgtest.Server(t, localpg.Config{})
	settings, err := json.Marshal(consumerSettings{Database: database.URL(), NATS: c.NATS.URL()})
	if err != nil {
		t.Fatal(err)
	}
	s := &consumers{database: database, pool: pgtest.Pool(t, database.URL()), settings: string(settings)}
	err = inbox.Migrate(t.Context(), s.pool, "public")
	if err == nil {
		_, err = s.pool.Exec(t.Context(), `CREATE TABLE effects (
			n bigint GENERATED ALWAYS AS IDENTITY, event_id uuid, stream text, version bigint, sequence bigint, partition integer, body bigint)`)
	}
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		s.join(t)
	}
	return s
}

// join starts a consumer and waits until it gives signs of life.
func (s *consumers) join(t *testing.T) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s.started++
	p := clustertest.LaunchBinary(t, fmt.Sprintf("consumer %d", s.started), program, []string{consumerVariable + "=" + s.settings})
	s.running = append(s.running, p)
	clustertest.Until(t, "a consumer has joined", func(ctx context.Context) (joined bool, err error) {
		select {
		case <-p.Ended():
			return false, fmt.Errorf("it ended: %s", p.Stderr())
		default:
		}
		err = s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM inbox_readers WHERE pid = $1 AND alive_until > clock_timestamp())`, p.PID()).Scan(&joined)
		return joined, err
	}, nil)
}

// part ends consumer i by a signal.
func (s *consumers) part(t *testing.T, i int, by syscall.Signal) {
	t.Helper()
	p := s.running[i]
	s.running = slices.Delete(s.running, i, i+1)
	p.Signal(t, by)
	if code := p.Exit(t); code != 0 && by != syscall.SIGKILL {
		t.Errorf("a consumer that was asked to end ended with status %d: %s", code, p.Stderr())
	}
}

// effects reads what the consumers did, in the order of each stream.
func (s *consumers) effects(ctx context.Context, each func(ledger.Message)) error {
	rows, _ := s.pool.Query(ctx, `SELECT event_id, stream, version, sequence, partition, body FROM effects ORDER BY n`)
	var m ledger.Message
	var in int
	var body int64
	_, err := pgx.ForEachRow(rows, []any{&m.EventID, &m.Stream, &m.StreamVersion, &m.Sequence, &in, &body}, func() error {
		m.Partition, m.BodyHash = partition.ID(in), uint64(body)
		each(m)
		return nil
	})
	return err
}

// describe says where the consumers' lanes are.
func (s *consumers) describe(ctx context.Context) string {
	var state string
	err := s.pool.QueryRow(ctx, `SELECT concat_ws(E'\n', clock_timestamp(), (SELECT string_agg(l::text, E'\n') FROM inbox_lanes AS l),
		(SELECT string_agg(r::text, E'\n') FROM inbox_readers AS r WHERE alive_until > clock_timestamp() - interval '1 minute'),
		'parked: ' || (SELECT count(*) FROM inbox_parked),
		(SELECT string_agg(concat_ws(' ', pid, state, wait_event, clock_timestamp() - xact_start, left(query, 90)), E'\n') FROM pg_stat_activity
		  WHERE datname = current_database()))`).Scan(&state)
	return fmt.Sprintf("lanes, readers, sessions: %v\n%s", err, state)
}
