package loop_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/internal/testkit/slow"
	"github.com/postrider/postrider/message"
)

// twoPhase is producers that end every transaction in two phases, so that there
// always is a prepared one.
type twoPhase struct {
	transactions int           // of each producer; 0: as many as the time allows
	time         time.Duration // of all
	hold         float64       // the most seconds between the phases

	mu        sync.Mutex
	committed map[int64]time.Time // by sequence
	longest   time.Duration       // of all transactions, from begin to end
}

const producersInTwoPhases = 8

// Delivery goes on while transactions are prepared, one overlapping the other: most of
// what is committed is stored before the producers end.
func TestOverlappingPreparedTransactionsStopNothing(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	p := &twoPhase{transactions: 20, hold: 0.2}
	before := p.run(t, b)
	if all := len(p.committed); before < all/2 {
		t.Errorf("of %d events %d were stored while producers were at work, want half of them or more", all, before)
	}
}

// The promise's own measure: held for 0.4 s at most, for a minute, and no event waits
// longer than 1.5 s: for those that were under way when the watermark's next position
// was noted, and those when it was committed itself, and 0.7 s for all that delivery does.
// A disk that stands still holds transactions longer, so the longest one is measured.
func TestPreparedTransactionsDelayNothingForLong(t *testing.T) { //nolint:paralleltest // it measures time
	slow.Test(t)
	b := setup(t, 4)
	p := &twoPhase{time: time.Minute, hold: 0.39}
	p.run(t, b)
	var longest time.Duration
	b.eachEvent(t, func(m jetstream.Msg) {
		about, err := m.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		sequence, err := strconv.ParseInt(m.Headers().Get(message.HeaderSequence), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		longest = max(longest, about.Timestamp.Sub(p.committed[sequence]))
	})
	t.Logf("%d events, the longest wait was %s, the longest transaction %s", len(p.committed), longest, p.longest)
	if most := 2*max(p.longest, 400*time.Millisecond) + 700*time.Millisecond; longest > most {
		t.Errorf("an event waited for %s, want %s at most", longest, most)
	}
}

// run produces while a relay delivers, and returns how many events were stored when
// the producers ended. Everything must be stored then, once and in order.
func (p *twoPhase) run(t *testing.T, b *bundle) (before int) {
	t.Helper()
	p.committed = map[int64]time.Time{}
	config := b.pool.Config()
	config.MaxConns = producersInTwoPhases
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	b.acquireAll(t, b.keeper)
	stop := b.start(t, b.relay(t, loop.Config{PollInterval: 20 * time.Millisecond, SweepInterval: time.Hour}))
	var end <-chan struct{}
	if p.time > 0 {
		ctx, cancel := context.WithTimeout(t.Context(), p.time)
		defer cancel()
		end = ctx.Done()
	}
	var producing sync.WaitGroup
	for producer := range producersInTwoPhases {
		producing.Go(func() { p.produce(t, pool, producer, end) })
	}
	producing.Wait()
	if err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM outbox_messages WHERE state = 'published'`).Scan(&before); err != nil {
		t.Fatal(err)
	}
	b.until(t, `SELECT count(*) FROM outbox`, 0)
	stop()
	b.wantStrictOrder(t)
	return before
}

// produce appends, prepares, holds, and commits or rolls back.
func (p *twoPhase) produce(t *testing.T, pool *pgxpool.Pool, producer int, end <-chan struct{}) {
	t.Helper()
	random := rand.New(rand.NewPCG(7, uint64(producer)))
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Errorf("producer %d: %v", producer, err)
		return
	}
	defer conn.Release()
	for n := 0; p.transactions == 0 || n < p.transactions; n++ {
		select {
		case <-end:
			return
		default:
		}
		name := fmt.Sprintf("two-phase-%s-%d-%d", t.Name(), producer, n)
		ending := "COMMIT"
		if random.Float64() < 0.3 {
			ending = "ROLLBACK"
		}
		var sequence int64
		began := time.Now()
		for _, sql := range []string{
			`BEGIN`, `SELECT outbox_append($1, 'thing.done', '{}')`,
			`PREPARE TRANSACTION '` + name + `'`, fmt.Sprintf(`SELECT pg_sleep(%f)`, random.Float64()*p.hold), ending + ` PREPARED '` + name + `'`,
		} {
			var err error
			if sequence == 0 && sql[0] == 'S' {
				err = conn.QueryRow(t.Context(), sql, fmt.Sprintf("s-%d-%d", producer, n%5)).Scan(&sequence)
			} else {
				_, err = conn.Exec(t.Context(), sql)
			}
			if err != nil {
				t.Errorf("producer %d: %s: %v", producer, sql, err)
				return
			}
		}
		ended := time.Now()
		p.mu.Lock()
		p.longest = max(p.longest, ended.Sub(began))
		if ending == "COMMIT" {
			p.committed[sequence] = ended
		}
		p.mu.Unlock()
	}
}
