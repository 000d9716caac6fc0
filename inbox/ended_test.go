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
