package faults_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/testkit/natstest"
)

const (
	// laneLook is the time between two looks at the lanes.
	laneLook = 100 * time.Millisecond
	// lanePrompt bounds a look; a server that answers later is as good as away.
	lanePrompt = 500 * time.Millisecond
	// laneMargin bounds the standstill of a lane with something to read, beyond its reader's lease.
	laneMargin = 5 * time.Second
)

var errStandby = errors.New("the consumers' database is a standby")

// laneWatch measures how long lanes stand still while there is something to read and the servers are there.
type laneWatch struct {
	consumers *consumers
	js        jetstream.JetStream

	mu      sync.Mutex
	lanes   map[int]standing
	deaths  int // of consumers
	looked  time.Time
	longest time.Duration
}

// standing is a lane's position, and since when it is that.
type standing struct {
	position uint64
	since    time.Time
	deaths   int // before
}

// watchLanes looks until the test ends.
func watchLanes(t *testing.T, c *consumers, js jetstream.JetStream) *laneWatch {
	t.Helper()
	w := &laneWatch{consumers: c, js: js, lanes: map[int]standing{}}
	lookEvery(t, laneLook, func(ctx context.Context) { w.look(ctx, t) })
	return w
}

// void begins all measurements anew: a server is, or was, away.
func (w *laneWatch) void() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.lanes)
}

// died is told of each consumer that is killed or frozen: whoever took its lanes may be the next.
func (w *laneWatch) died() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deaths++
}

// look compares the lanes' positions with those of before.
func (w *laneWatch) look(ctx context.Context, t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, lanePrompt)
	defer cancel()
	end, last, err := w.end(ctx)
	positions := map[int]uint64{}
	if err == nil {
		positions, err = w.positions(ctx)
	}
	if err != nil {
		w.void()
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	stalled := max(0, now.Sub(w.looked)-10*laneLook) // the machine, and not the readers
	w.looked = now
	for lane, position := range positions {
		before, known := w.lanes[lane]
		// A position above the stream's end is one that a stream has lost: something comes below it.
		if idle := position >= end && position <= last; !known || idle || before.position != position {
			w.lanes[lane] = standing{position, now, w.deaths}
			continue
		}
		before.since = before.since.Add(stalled)
		w.longest = max(w.longest, now.Sub(before.since))
		if limit := time.Duration(max(1, w.deaths-before.deaths))*ttl + laneMargin; now.Sub(before.since) > limit {
			t.Errorf("%s lane %d stands at %d for %s, the stream has events up to %d; %s", now.UTC().Format(time.RFC3339Nano), lane, position,
				now.Sub(before.since), end, w.consumers.describe(ctx))
			before = standing{position, now, w.deaths}
		}
		w.lanes[lane] = before
	}
}

// end is the sequence of the stream's last event, and of its last message.
func (w *laneWatch) end(ctx context.Context) (event, last uint64, err error) {
	stream, err := w.js.Stream(ctx, natstest.StreamName)
	if err != nil {
		return 0, 0, err
	}
	m, err := stream.GetLastMsgForSubject(ctx, "events.>")
	if err != nil {
		return 0, 0, err
	}
	return m.Sequence, max(m.Sequence, stream.CachedInfo().State.LastSeq), nil
}

// positions fails while the database is a standby: a promotion may take as long as the machine is busy.
func (w *laneWatch) positions(ctx context.Context) (map[int]uint64, error) {
	rows, _ := w.consumers.pool.Query(ctx, `SELECT lane, position, pg_is_in_recovery() FROM inbox_lanes WHERE consumer = $1`, consumerName)
	positions := map[int]uint64{}
	var lane int
	var position int64
	var standby bool
	_, err := pgx.ForEachRow(rows, []any{&lane, &position, &standby}, func() error {
		positions[lane] = uint64(position)
		if standby {
			return errStandby
		}
		return nil
	})
	return positions, err
}

// String gives the longest time.
func (w *laneWatch) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprintf("no lane with something to read stood still for longer than %s", w.longest.Round(time.Millisecond))
}
