package inbox_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/message"
)

// deadly ends the process for the second message of stream "deadly", always, and for the first of "late" when that is tried
// again.
func deadly(pool *pgxpool.Pool) inbox.Handler {
	return func(ctx context.Context, tx pgx.Tx, m message.Message) ([]byte, error) {
		switch {
		case m.Stream == "deadly" && m.Version == 2:
			os.Exit(3)
		case m.Stream == "late" && m.Version == 1:
			var visits int
			if err := pool.QueryRow(ctx, `INSERT INTO visits DEFAULT VALUES RETURNING visit`).Scan(&visits); err != nil {
				return nil, err
			}
			if visits == 1 {
				return nil, errors.New("not yet")
			}
			os.Exit(3)
		}
		return apply(ctx, tx, m)
	}
}

func TestAHandlerThatEndsItsProcessAgainAndAgain(t *testing.T) {
	t.Parallel()
	r := newReading(t)
	if _, err := r.pool.Exec(t.Context(), `CREATE TABLE visits (visit int GENERATED ALWAYS AS IDENTITY)`); err != nil {
		t.Fatal(err)
	}
	for v := range int64(4) {
		for _, stream := range []string{"a", "deadly", "b", "late", "c"} {
			r.publish(t, event(stream, v+1))
		}
	}
	f := &fleet{t: t, settings: readerSettings{
		Database: r.pool.Config().ConnString(), NATS: r.server.URL(), Lanes: 4, Batch: 50, TTL: time.Second, Deadly: true,
	}}
	t.Cleanup(func() { f.explain(r.pool) })
	started := 0
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	for done := false; !done; {
		f.running = slices.DeleteFunc(f.running, func(p *readerProc) bool {
			select {
			case <-p.ended:
				return true
			default:
				return false
			}
		})
		for len(f.running) < 2 {
			f.start()
			started++
		}
		err := r.pool.QueryRow(ctx, `SELECT (SELECT count(*) = 2 FROM inbox_parked WHERE state = 'dead') AND
			(SELECT count(*) = 13 FROM effects) AND (SELECT min(position) = 20 FROM inbox_lanes)`).Scan(&done)
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d processes were started", started)
	dead, err := r.inbox(t, "cluster").Dead(t.Context(), 10)
	if err != nil || len(dead) != 2 {
		t.Fatalf("dead are %v, %v", dead, err)
	}
	for _, d := range dead {
		if d.Attempts != 3 || d.Reason != "the process ended each time that the handler ran" {
			t.Errorf("%s version %d is dead after %d attempts: %s", d.Stream, d.Version, d.Attempts, d.Reason)
		}
	}
	for _, stream := range []string{"a", "b", "c"} {
		if got := r.effects(t, stream); !slices.Equal(got, []int64{1, 2, 3, 4}) {
			t.Errorf("stream %s has effects %v", stream, got)
		}
	}
	waitFor(t, r.pool, `SELECT count(*) = 5 FROM inbox_parked WHERE state = 'waiting'`)
}

// A process that marked a message as begun and ended over another one, when the message was about to be dead, is none of its attempts.
func TestABeginBehindTheLimitIsNoAttempt(t *testing.T) {
	t.Parallel()
	b := newBundle(t, func(c *inbox.Config) { c.MaxAttempts = 3 })
	refuse := func(context.Context, pgx.Tx, message.Message) ([]byte, error) { return nil, errors.New("not yet") }
	b.process(t, event("s", 1), refuse)
	if _, err := b.pool.Exec(t.Context(), `UPDATE inbox_parked SET begun = 3, begun_by = gen_random_uuid(), due_at = now()`); err != nil {
		t.Fatal(err)
	}
	n, err := b.box.RetryDue(t.Context(), 1, func(context.Context, pgx.Tx, message.Message) ([]byte, error) {
		t.Error("the handler runs once more")
		return nil, nil
	})
	if err != nil || n != 1 {
		t.Fatalf("%d tried: %v", n, err)
	}
	dead, err := b.box.Dead(t.Context(), 10)
	if err != nil || len(dead) != 1 || dead[0].Attempts != 3 {
		t.Errorf("dead are %+v, %v", dead, err)
	}
}

// A message that is only waiting until another, which may end the process, is through is not begun: the end that the other
// brings is not its own.
func TestSuspectsAreBegunOneAfterAnother(t *testing.T) {
	t.Parallel()
	b := newBundle(t, func(c *inbox.Config) { c.BackoffBase, c.BackoffMax = time.Millisecond, time.Millisecond })
	refuse := func(context.Context, pgx.Tx, message.Message) ([]byte, error) { return nil, errors.New("not yet") }
	for _, stream := range []string{"one", "other"} {
		b.process(t, event(stream, 1), refuse)
	}
	// Both were begun by a process that is gone.
	if _, err := b.pool.Exec(t.Context(), `UPDATE inbox_parked SET begun = 1, begun_by = gen_random_uuid(), due_at = now()`); err != nil {
		t.Fatal(err)
	}
	inside, goOn, tried := make(chan string), make(chan struct{}), make(chan int)
	go func() {
		n, err := b.box.RetryDue(t.Context(), 1, func(ctx context.Context, tx pgx.Tx, m message.Message) ([]byte, error) {
			inside <- m.Stream
			<-goOn
			return apply(ctx, tx, m)
		})
		if err != nil {
			t.Error(err)
		}
		tried <- n
	}()
	first := <-inside
	beside, err := b.box.RetryDue(t.Context(), 1, func(_ context.Context, _ pgx.Tx, m message.Message) ([]byte, error) {
		t.Errorf("the message of stream %s runs beside that of stream %s", m.Stream, first)
		return nil, nil
	})
	var begun []int
	query := `SELECT array_agg(begun ORDER BY begun) FROM inbox_parked`
	if scan := b.pool.QueryRow(t.Context(), query).Scan(&begun); err != nil || scan != nil || beside != 0 || !slices.Equal(begun, []int{1, 2}) {
		t.Errorf("beside the first, %d were tried, and the two were begun %v times (%v, %v)", beside, begun, err, scan)
	}
	close(goOn)
	if n := <-tried; n != 1 {
		t.Errorf("%d tried", n)
	}
	b.retryUntil(t, apply, nothingParked)
}
