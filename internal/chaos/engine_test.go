package chaos_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/chaos"
	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/outbox"
)

// stage is a cluster whose workers are a crew.
type stage struct {
	*clustertest.Cluster

	crew   *chaos.Crew
	engine *chaos.Engine
	load   *chaos.Load
}

// clusters run one at a time: what is timed in one would be the others' work.
var clusters sync.Mutex

func newStage(t *testing.T, change func(*chaos.Config)) *stage {
	t.Helper()
	clusters.Lock()
	t.Cleanup(clusters.Unlock)
	c := clustertest.New(t, clustertest.Config{})
	crew, err := chaos.NewCrew(chaos.CrewConfig{
		Program: clustertest.Binary(t), Arguments: []string{"run", "--lease-ttl=2s", "--http-addr=off"},
		Environment: c.Environment(), Log: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), clustertest.Patience)
		defer cancel()
		if err := crew.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	if err := crew.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	leases, err := lease.NewStore(t.Context(), c.Pool, "public")
	if err != nil {
		t.Fatal(err)
	}
	config := chaos.Config{
		Crew: crew, Leases: leases, Judge: ledger.Config{Ledger: c.Ledger, ContiguousVersions: true}, Seed: 1,
		Mishaps: []chaos.Mishap{crew.KillWorker(), crew.FreezeWorker()}, Quiet: time.Second,
	}
	if change != nil {
		change(&config)
	}
	engine, err := chaos.New(config)
	if err != nil {
		t.Fatal(err)
	}
	c.Subscribe(t, func(m ledger.Message) { engine.Receive(m) })
	producer, err := outbox.New(outbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return &stage{Cluster: c, crew: crew, engine: engine, load: &chaos.Load{Pool: c.Pool, Producer: producer, Ledger: c.Ledger, Rate: 200}}
}

// Workers are killed and frozen, and each time the others have its partitions within the lease's time and the two seconds of P5.
func TestWorkersAreStruckAndNothingIsLost(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	before := s.crew.Members()
	v := s.engine.Run(t.Context(), s.load.Run)
	if !v.OK() || v.Received < 200 {
		t.Fatalf("the verdict is %v: %s", v.Failure, v.Report)
	}
	kinds := []string{}
	for _, tally := range v.Tallies() {
		kinds = append(kinds, tally.Kind)
		if tally.Times != 1 || tally.Longest < time.Second || tally.Longest > 10*time.Second {
			t.Errorf("%s: %d times, at most %s", tally.Kind, tally.Times, tally.Longest)
		}
	}
	if slices.Sort(kinds); !slices.Equal(kinds, []string{"worker frozen", "worker killed"}) {
		t.Errorf("there were %v", kinds)
	}
	// A machine that does much else gets few of the 200 a second.
	if v.Quiet.Events < 20 || v.Quiet.P50 > v.Quiet.P99 || v.Quiet.P99 > 2*time.Second || v.Quiet.Over < 3*time.Second {
		t.Errorf("quiet was %+v", v.Quiet)
	}
	same := 0
	for i, m := range s.crew.Members() {
		if !m.Running || m.Frozen {
			t.Errorf("worker %d is left %+v", m.Number, m)
		}
		if m.ID == before[i].ID {
			same++
		}
	}
	if same != 2 {
		t.Errorf("%d of 3 workers are the same as before; one was killed", same)
	}
}

// An event that was committed and never comes is lost, and the verdict says so.
func TestWhatNeverComesIsLost(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *chaos.Config) {
		c.Patience = 3 * time.Second
		c.Mishaps = []chaos.Mishap{{Kind: "an event is lost", Strike: func(context.Context, *rand.Rand) (chaos.Struck, error) {
			c.Judge.Ledger.Committed([]ledger.Entry{{EventID: uuid.New(), Stream: "ghost", Version: 1}}, time.Now())
			return chaos.Struck{Text: "lost an event"}, nil
		}}}
	})
	v := s.engine.Run(t.Context(), s.load.Run)
	if v.OK() || v.Report.Lost != 1 || v.Failure == nil || !strings.Contains(v.Failure.Error(), "an event waits for") {
		t.Errorf("the verdict is %v: %s", v.Failure, v.Report)
	}
}

// A worker that ends by itself ends the run, with its last words.
func TestAWorkerThatEndsByItselfIsTold(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *chaos.Config) {
		c.Mishaps = []chaos.Mishap{{Kind: "terminate", Strike: func(context.Context, *rand.Rand) (chaos.Struck, error) {
			terminate(t, c.Crew.Members()[1].PID)
			return chaos.Struck{Text: "terminated a worker"}, nil
		}}}
	})
	v := s.engine.Run(t.Context(), s.load.Run)
	if v.OK() || v.Failure == nil || !strings.Contains(v.Failure.Error(), "worker 2 ended by itself") {
		t.Errorf("the verdict is %v: %s", v.Failure, v.Report)
	}
}

// Who asks for the end early gets a verdict of what happened until then.
func TestAnEarlyEndHasAVerdict(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := newStage(t, func(c *chaos.Config) {
		c.Mishaps = []chaos.Mishap{{Kind: "the end", Strike: func(context.Context, *rand.Rand) (chaos.Struck, error) {
			cancel()
			return chaos.Struck{}, errors.New("it is over")
		}}}
	})
	if v := s.engine.Run(ctx, s.load.Run); !v.OK() || v.Received == 0 {
		t.Errorf("the verdict is %v: %s", v.Failure, v.Report)
	}
}

func terminate(t *testing.T, pid int) {
	t.Helper()
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Signal(syscall.SIGTERM)
	}
	if err != nil {
		t.Error(err)
	}
}
