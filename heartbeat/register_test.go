package heartbeat_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/heartbeat"
)

// slowTable answers a beat after a while.
type slowTable struct {
	heartbeat.Table
	begun  chan struct{}
	answer time.Duration
}

func (s slowTable) Beat(ctx context.Context, _ heartbeat.Worker, _ time.Duration) error {
	close(s.begun)
	select {
	case <-time.After(s.answer):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A worker that is told to end while its first beat is under way knows afterwards whether its row is there, unless the
// database takes too long.
func TestTheFirstBeatIsNotCutOff(t *testing.T) {
	t.Parallel()
	for answer, want := range map[time.Duration]error{900 * time.Millisecond: nil, time.Hour: context.Canceled} {
		synctest.Test(t, func(t *testing.T) {
			table := slowTable{begun: make(chan struct{}), answer: answer}
			b, err := heartbeat.NewBeater(table, heartbeat.Config{Interval: time.Second, TTL: 10 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			ctx, end := context.WithCancel(t.Context())
			go func() {
				<-table.begun
				end()
			}()
			if err := b.Register(ctx); !errors.Is(err, want) {
				t.Errorf("a beat that takes %s: %v, want %v", answer, err, want)
			}
			if err := b.Register(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("a beat after the end: %v", err)
			}
			synctest.Wait()
		})
	}
}
