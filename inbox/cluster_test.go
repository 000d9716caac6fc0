package inbox_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/internal/testkit/slow"
	"github.com/postrider/postrider/message"
)

// readerVariable makes the test binary a reader; its value is a readerSettings.
const readerVariable = "INBOX_TEST_READER"

type readerSettings struct {
	Database, NATS string
	Lanes, Batch   int
	TTL            time.Duration
	// FailOneIn makes the handler fail now and then.
	FailOneIn int
	// Deadly makes the handler end the process for some messages; see deadly.
	Deadly bool
}

// tally is a handler whose effects show loss, repetition and disorder: a row per event, and per stream a count, a sum
// and a hash over the versions in the order in which they were applied.
func tally(ctx context.Context, tx pgx.Tx, m message.Message) ([]byte, error) {
	_, err := tx.Exec(ctx, `
		INSERT INTO tally AS t (stream, events, total, chain)
		VALUES ($1, 1, $2, encode(sha256(convert_to('/' || $3::bigint::text, 'UTF8')), 'hex'))
		ON CONFLICT (stream) DO UPDATE SET events = t.events + 1, total = t.total + EXCLUDED.total,
		       chain = encode(sha256(convert_to(t.chain || '/' || $3::bigint::text, 'UTF8')), 'hex')`, m.Stream, m.Sequence, m.Version)
	return nil, err
}

// readerProcess is a consumer until SIGTERM.
func readerProcess(ctx context.Context) error {
	var s readerSettings
	if err := json.Unmarshal([]byte(os.Getenv(readerVariable)), &s); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	pool, err := pgxpool.New(ctx, s.Database)
	if err != nil {
		return err
	}
	defer pool.Close()
	conn, err := nats.Connect(s.NATS, nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	attempts := inbox.NoLimit
	if s.Deadly {
		attempts = 3
	}
	box, err := inbox.New(pool, inbox.Config{
		Name: "cluster", BackoffBase: 20 * time.Millisecond, BackoffMax: 100 * time.Millisecond, MaxAttempts: attempts,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	handle := func(ctx context.Context, tx pgx.Tx, m message.Message) ([]byte, error) {
		if s.FailOneIn > 0 && rand.IntN(s.FailOneIn) == 0 {
			return nil, errors.New("now and then it fails")
		}
		return tally(ctx, tx, m)
	}
	if s.Deadly {
		handle = deadly(pool)
	}
	consumer, err := inbox.NewConsumer(box, js, handle, inbox.ConsumerConfig{
		Lanes: s.Lanes, BatchSize: s.Batch, LeaseTTL: s.TTL, Interval: 100 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	return consumer.Run(ctx)
}

// fleet is readers as processes of their own.
type fleet struct {
	t        testing.TB
	settings readerSettings
	mu       sync.Mutex
	running  []*readerProc
}

type readerProc struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	ended  chan struct{}
}

func (f *fleet) start() *readerProc {
	f.t.Helper()
	settings, err := json.Marshal(f.settings)
	if err != nil {
		f.t.Fatal(err)
	}
	p := &readerProc{cmd: exec.Command(os.Args[0]), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), readerVariable+"="+string(settings))
	p.cmd.Stderr = &p.stderr
	if err := p.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // killed ones say so
		close(p.ended)
	}()
	f.mu.Lock()
	f.running = append(f.running, p)
	f.mu.Unlock()
	f.t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.ended
		if f.t.Failed() {
			text := p.stderr.Bytes()
			f.t.Logf("reader %d wrote:\n%s", p.cmd.Process.Pid, text[max(0, len(text)-8000):])
		}
	})
	return p
}

// end takes a reader off the fleet with a signal and waits until it is gone.
func (f *fleet) end(n int, signal syscall.Signal) {
	f.t.Helper()
	f.mu.Lock()
	p := f.running[n]
	f.running = append(f.running[:n:n], f.running[n+1:]...)
	f.mu.Unlock()
	if err := p.cmd.Process.Signal(signal); err != nil {
		f.t.Errorf("signal a reader: %v", err)
	}
	<-p.ended
}

// workload is what was published: per stream the number of versions and what their tally must be.
type workload struct {
	streams map[string][]int64 // sequences by version
	events  int
}

// publish puts events into JetStream as the workers would, some of them twice and some streams' versions apart.
func publish(t testing.TB, js jetstream.JetStream, events, streams int, seed uint64) *workload {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, seed))
	w := &workload{streams: map[string][]int64{}, events: events}
	var sent []*nats.Msg
	for n := range events {
		// A fifth of the events belongs to one of five streams.
		name := "stream-" + strconv.Itoa(random.IntN(streams))
		if random.IntN(5) == 0 {
			name = "busy-" + strconv.Itoa(random.IntN(5))
		}
		w.streams[name] = append(w.streams[name], int64(n+1))
		m := event(name, int64(len(w.streams[name])))
		msg := &nats.Msg{Subject: "events.test.tested", Data: []byte(`{"n":` + strconv.Itoa(n) + `}`), Header: nats.Header{
			message.HeaderEventID: {m.EventID.String()}, message.HeaderStream: {name}, message.HeaderStreamVersion: {strconv.FormatInt(m.Version, 10)},
			message.HeaderSequence: {strconv.Itoa(n + 1)}, message.HeaderPartition: {strconv.Itoa(n % 64)}, message.HeaderType: {"tested"},
		}}
		sent = append(sent, msg)
		if random.IntN(100) == 0 { // a copy, as after a requeue or an outage
			sent = append(sent, &nats.Msg{Subject: msg.Subject, Data: msg.Data, Header: msg.Header})
		}
	}
	for n, msg := range sent {
		if _, err := js.PublishMsgAsync(msg); err != nil {
			t.Fatal(err)
		}
		if n%2000 == 0 || n == len(sent)-1 {
			select {
			case <-js.PublishAsyncComplete():
			case <-t.Context().Done():
				t.Fatal("publishing did not end")
			}
		}
	}
	return w
}

// verify compares the tallies with what was published.
func (w *workload) verify(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT stream, events, total, chain FROM tally`)
	if err != nil {
		t.Fatal(err)
	}
	var stream, chain string
	var events, total int64
	seen := 0
	_, err = pgx.ForEachRow(rows, []any{&stream, &events, &total, &chain}, func() error {
		seen++
		var sum int64
		want := ""
		for n, sequence := range w.streams[stream] {
			sum += sequence
			h := sha256.Sum256(fmt.Appendf(nil, "%s/%d", want, n+1))
			want = hex.EncodeToString(h[:])
		}
		if events != int64(len(w.streams[stream])) || total != sum || chain != want {
			t.Errorf("stream %s: %d effects with sum %d, want %d with %d; order kept: %t",
				stream, events, total, len(w.streams[stream]), sum, chain == want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen != len(w.streams) {
		t.Errorf("%d streams have effects, want %d", seen, len(w.streams))
	}
}

// cluster runs events through 1, 3 and 2 readers while they are killed, paused and cut off.
// tallyTable makes the table that tally writes.
func tallyTable(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	_, err := pool.Exec(t.Context(), `CREATE TABLE tally (stream text PRIMARY KEY, events bigint, total bigint, chain text)`)
	if err != nil {
		t.Fatal(err)
	}
}

func cluster(t *testing.T, events, streams, kills int) {
	t.Helper()
	server := natstest.Start(t, 1)
	server.Stream(t, 1)
	url := pgtest.URL(t)
	pool := pgtest.Pool(t, url)
	prepare(t, pool)
	tallyTable(t, pool)
	w := publish(t, server.JetStream(t), events, streams, 11)
	f := &fleet{t: t, settings: readerSettings{
		Database: url, NATS: server.URL(), Lanes: 8, Batch: 50, TTL: time.Second, FailOneIn: 2000,
	}}
	t.Cleanup(func() { f.explain(pool) })
	random := rand.New(rand.NewPCG(7, 7))
	began := time.Now()
	done := func(share float64) {
		waitFor(t, pool, `SELECT coalesce(sum(events), 0) >= $1 FROM tally`, int(share*float64(events)))
	}
	rounds := 3 * kills
	for n := range rounds {
		for want := []int{1, 3, 2}[n/kills]; len(f.running) < want; {
			f.start()
		}
		for len(f.running) > []int{1, 3, 2}[n/kills] {
			f.end(0, syscall.SIGTERM)
		}
		done(float64(n+1) / float64(rounds+1))
		victim := random.IntN(len(f.running))
		switch n % 4 {
		case 0, 1:
			f.end(victim, syscall.SIGKILL)
		case 2:
			f.pause(victim, 3*f.settings.TTL/2)
		case 3: // the sessions of all readers end, wherever they are
			_, err := pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE datname = current_database() AND pid <> pg_backend_pid() AND query NOT LIKE '%coalesce(sum(events)%'`)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for len(f.running) < 2 {
		f.start()
	}
	waitFor(t, pool, `SELECT coalesce(sum(events), 0) >= $1 FROM tally`, events)
	waitFor(t, pool, `SELECT NOT EXISTS (SELECT FROM inbox_parked)`)
	took := time.Since(began)
	for len(f.running) > 0 {
		f.end(0, syscall.SIGTERM)
	}
	w.verify(t, pool)
	var epochs int64
	if err := pool.QueryRow(t.Context(), `SELECT sum(epoch) FROM inbox_lanes`).Scan(&epochs); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d events of %d streams in %s (%.0f/s), %d faults, %d times a lane changed hands",
		events, len(w.streams), took.Round(time.Millisecond), float64(events)/took.Seconds(), rounds, epochs)
}

// explain says where the lanes are, if the test failed.
func (f *fleet) explain(pool *pgxpool.Pool) {
	if !f.t.Failed() {
		return
	}
	var state string
	err := pool.QueryRow(context.Background(), `SELECT concat_ws(E'\n',
		(SELECT string_agg(l::text, E'\n') FROM inbox_lanes AS l), (SELECT string_agg(r::text, E'\n') FROM inbox_readers AS r),
		'effects: ' || (SELECT sum(events) FROM tally), 'parked: ' || (SELECT count(*) FROM inbox_parked),
		(SELECT string_agg(concat_ws(' ', pid, state, wait_event, clock_timestamp() - xact_start, left(query, 90)), E'\n') FROM pg_stat_activity
		  WHERE datname = current_database()))`).Scan(&state)
	f.t.Logf("lanes, readers, effects: %v\n%s", err, state)
}

// pause stops a reader past its lease and lets it go on.
func (f *fleet) pause(n int, length time.Duration) {
	f.t.Helper()
	process := f.running[n].cmd.Process
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		f.t.Error(err)
	}
	ctx, cancel := context.WithTimeout(f.t.Context(), length)
	defer cancel()
	<-ctx.Done()
	if err := process.Signal(syscall.SIGCONT); err != nil {
		f.t.Error(err)
	}
}

func TestReadersComeAndGo(t *testing.T) {
	t.Parallel()
	cluster(t, 20_000, 400, 2)
}

func TestManyEventsWhileReadersComeAndGo(t *testing.T) {
	t.Parallel()
	slow.Test(t)
	cluster(t, 200_000, 5_000, 10)
}
