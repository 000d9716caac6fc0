package coordinator_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/coordinator"
	"github.com/postrider/postrider/heartbeat"
	"github.com/postrider/postrider/internal/testkit/slow"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// measured is a database of four cores that asks for these statements what BenchmarkStore of package lease found on
// PostgreSQL 15. What follows from it: docs/scaling.md.
var measured = prices{
	cores: 4, link: 500 * time.Microsecond, statement: 100 * time.Microsecond,
	read: 650 * time.Nanosecond, write: 13 * time.Microsecond,
}

// fleet is many real coordinators on a simulated database, by the clock of a bubble.
type fleet struct {
	t        *testing.T
	db       *simulated
	strategy partition.Strategy
	tower    tower
	running  []*simulatedWorker
	leaving  sync.WaitGroup
	tables   strings.Builder
}

type simulatedWorker struct {
	id   partition.WorkerID
	set  *lease.Set
	link *link
	stop func()
}

const simulatedTTL = 10 * time.Second

// start runs one more coordinator.
func (f *fleet) start() {
	f.t.Helper()
	l := &link{simulated: f.db, cut: make(chan struct{})}
	log := slog.New(slog.DiscardHandler)
	beater, err := heartbeat.NewBeater(members{l}, heartbeat.Config{TTL: simulatedTTL, Hostname: "simulated", Logger: log})
	if err != nil {
		f.t.Fatal(err)
	}
	keeper, err := lease.NewKeeper(leases{l}, beater.ID(), lease.Config{TTL: simulatedTTL, Logger: log})
	if err != nil {
		f.t.Fatal(err)
	}
	c, err := coordinator.New(coordinator.Config{Strategy: f.strategy, Logger: log}, beater, keeper, f.tower.hang(),
		func(ctx context.Context, _ *lease.Set) error { <-ctx.Done(); return nil })
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := c.Run(ctx); err != nil {
			f.t.Errorf("a worker ended with %v", err)
		}
	}()
	f.running = append(f.running, &simulatedWorker{beater.ID(), keeper.Set(), l, sync.OnceFunc(func() { cancel(); <-ended })})
}

// leave takes n workers out, all at once and in good order, or by a crash: they are cut off and never heard of again.
func (f *fleet) leave(n int, crash bool) {
	rand.Shuffle(len(f.running), func(i, j int) { f.running[i], f.running[j] = f.running[j], f.running[i] })
	leaving := f.running[:n]
	f.running = f.running[n:]
	for _, w := range leaving {
		if crash {
			close(w.link.cut)
		}
		f.leaving.Go(w.stop)
	}
}

// end cuts all workers off and waits for them: without the test, the bubble's clock stands still.
func (f *fleet) end() {
	f.leave(len(f.running), true)
	f.leaving.Wait()
}

// state tells whether living workers hold every partition, and whether in equal shares.
func (f *fleet) state() (held, even bool) {
	f.db.mu.Lock()
	defer f.db.mu.Unlock()
	now := time.Now()
	counts := make(map[partition.WorkerID]int, len(f.running))
	for _, w := range f.running {
		counts[w.id] = 0
	}
	for i := range f.db.rows {
		r := &f.db.rows[i]
		if r.Owner == uuid.Nil || r.Until.Before(now) {
			return false, false
		}
		if _, living := counts[r.Owner]; !living {
			return false, false
		}
		counts[r.Owner]++
	}
	low := len(f.db.rows) / len(f.running)
	for _, n := range counts {
		if n < low || n > low+1 {
			return true, false
		}
	}
	return true, true
}

// step is what became of one change of the fleet.
type step struct {
	held, even time.Duration
	moves      int
	load
}

const stepPatience = 2 * time.Minute

// settle lets the clock run until the shares are even again.
func (f *fleet) settle(what string, change func()) step {
	f.t.Helper()
	f.db.mu.Lock()
	f.db.moves = 0
	f.db.mu.Unlock()
	before, began := f.db.load(), time.Now()
	change()
	s := step{held: -1}
	for {
		synctest.Wait()
		held, even := f.state()
		if held && s.held < 0 {
			s.held = time.Since(began)
		}
		if even {
			break
		}
		if !held {
			s.held = -1
		}
		if time.Since(began) > stepPatience {
			f.t.Fatalf("%s: the shares are not even after %s", what, stepPatience)
		}
		<-time.After(10 * time.Millisecond) // by the clock of the bubble, which costs nothing
	}
	s.even, s.load = time.Since(began), f.db.load().minus(before)
	f.db.mu.Lock()
	s.moves = f.db.moves
	f.db.mu.Unlock()
	f.tell(what, s)
	f.alone()
	return s
}

// alone wants no partition to be trusted by two workers.
func (f *fleet) alone() {
	f.t.Helper()
	owners := map[partition.ID]partition.WorkerID{}
	for _, w := range f.running {
		for _, l := range w.set.Held() {
			if other, twice := owners[l.Partition]; twice {
				f.t.Errorf("partition %d is trusted by %s and %s", l.Partition, other, w.id)
			}
			owners[l.Partition] = w.id
		}
	}
}

func (f *fleet) tell(what string, s step) {
	held := "never all"
	if s.held >= 0 {
		held = s.held.Round(time.Millisecond).String()
	}
	fmt.Fprintf(&f.tables, "| %-34s | %9s | %9s | %6d | %7d | %11d | %7d | %6.2f |\n", what, held, s.even.Round(time.Millisecond), s.moves,
		s.Statements, s.RowsRead, s.RowsWritten, s.Busy.Seconds())
}

// steady lets a while pass in which nothing happens.
func (f *fleet) steady(while time.Duration) step {
	before, began := f.db.load(), time.Now()
	<-time.After(while) // by the clock of the bubble, which costs nothing
	s := step{even: time.Since(began), load: f.db.load().minus(before)}
	f.tell("peace", s)
	return s
}

// simulate takes a fleet through what happens to fleets.
func simulate(t *testing.T, strategy partition.Strategy, partitions, workers int, handover, takeover time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{t: t, db: newSimulated(partitions, measured), strategy: strategy}
		t.Cleanup(f.end)
		tenth := max(1, workers/10)
		f.settle(fmt.Sprintf("%d start within a second", workers), func() {
			for range workers {
				f.start()
				<-time.After(time.Second / time.Duration(workers)) // by the clock of the bubble, which costs nothing
			}
		})
		peace := f.steady(time.Minute)
		f.settle("1 joins", f.start)
		planned := f.settle("1 leaves", func() { f.leave(1, false) })
		f.settle(fmt.Sprintf("%d join at once", tenth), func() {
			for range tenth {
				f.start()
			}
		})
		f.settle(fmt.Sprintf("%d leave at once", tenth), func() { f.leave(tenth, false) })
		crash := f.settle("1 crashes", func() { f.leave(1, true) })
		many := f.settle(fmt.Sprintf("%d crash at once", tenth), func() { f.leave(tenth, true) })
		t.Logf("%d partitions, %d workers, %s:\n"+
			"| what happens | all held | even | moves | statements | rows read | rows written | core seconds |\n%s", partitions, workers, strategy, f.tables.String())
		if planned.held >= handover {
			t.Errorf("after a planned handover all was held after %s, want less than %s", planned.held, handover)
		}
		for _, s := range []step{crash, many} {
			if s.held >= takeover {
				t.Errorf("after a crash all was held after %s, want less than %s", s.held, takeover)
			}
		}
		if share := peace.Busy.Seconds() / peace.even.Seconds(); share > 1 {
			t.Errorf("in peace the workers cost the database %.2f cores", share)
		}
	})
}

// The code that runs in production, on a simulated database and clock.
func TestSimulatedFleet(t *testing.T) {
	t.Parallel()
	for _, strategy := range []partition.Strategy{partition.Modulo, partition.Sticky} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			simulate(t, strategy, 256, 20, time.Second, simulatedTTL+500*time.Millisecond)
		})
	}
}

// Each of so many workers reads so many leases whenever one rings: that takes the database longer than a second.
func TestSimulatedFleetAtScale(t *testing.T) { //nolint:paralleltest // fills the machine
	slow.Test(t)
	for _, strategy := range []partition.Strategy{partition.Modulo, partition.Sticky} { //nolint:paralleltest // fills the machine
		t.Run(string(strategy), func(t *testing.T) { simulate(t, strategy, 10_000, 200, 2*time.Second, simulatedTTL+2*time.Second) })
	}
}

// In peace, a large cluster does not read all leases with each worker each second; and what nobody rang for is found
// all the same.
func TestPeaceIsCheap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const partitions, workers = 8000, 50
		f := &fleet{t: t, db: newSimulated(partitions, measured), strategy: partition.Modulo}
		t.Cleanup(f.end)
		f.settle("start", func() {
			for range workers {
				f.start()
			}
		})
		peace := f.steady(20 * time.Second)
		each := int64(peace.even/time.Second) * workers * partitions
		if peace.RowsRead > each*7/10 {
			t.Errorf("%d rows were read in %s; %d if each worker read all each second", peace.RowsRead, peace.even, each)
		}
		lost := f.settle("somebody frees leases by hand", func() {
			f.db.mu.Lock()
			defer f.db.mu.Unlock()
			for i := range partitions / 2 {
				f.db.rows[i].Owner, f.db.rows[i].Epoch = uuid.Nil, f.db.rows[i].Epoch+1
			}
		})
		if lost.held >= simulatedTTL {
			t.Errorf("leases that were freed by hand were free for %s", lost.held)
		}
	})
}
