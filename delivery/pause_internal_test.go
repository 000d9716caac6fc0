package delivery

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// gathering is a publisher that is ready when it is told.
type gathering struct {
	Publisher
	ready chan struct{}
}

func (g gathering) Ready() <-chan struct{} { return g.ready }

// breath is how long a relay waits before its next look.
func breath(t *testing.T, r *Relay, last look) time.Duration {
	t.Helper()
	began := time.Now()
	if err := r.breathe(t.Context(), last); err != nil {
		t.Error(err)
	}
	return time.Since(began)
}

func pacing(publisher Publisher) *Relay {
	cfg := Config{BatchSize: 100, Window: 1000, PollInterval: 50 * time.Millisecond}
	return &Relay{cfg: cfg, publisher: publisher, room: cfg.Window}
}

// A look that found little is followed by a rest as long as it took, if that was not long.
func TestALookThatFoundLittleIsFollowedByARest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := pacing(nil)
		for _, c := range []struct {
			name       string
			took, want time.Duration
			last       look
		}{
			{"little", 3 * time.Millisecond, 3 * time.Millisecond, look{asked: 1, found: 99}},
			{"slow", time.Second, longestBreather, look{asked: 1}},
			{"a batch", time.Second, 0, look{asked: 1, found: 100}},
			{"as much as a little look may find", time.Second, 0, look{asked: 1, found: littleLook, little: true}},
			{"nobody was asked for", time.Second, 0, look{}},
		} {
			c.last.ended = time.Now()
			c.last.began = c.last.ended.Add(-c.took)
			if got := breath(t, r, c.last); got != c.want {
				t.Errorf("%s: a rest of %s, want %s", c.name, got, c.want)
			}
		}
		r.pause.until = time.Now().Add(time.Second)
		if got := breath(t, r, look{asked: 1, found: 100}); got != time.Second {
			t.Errorf("a pause lasted %s, want 1s", got)
		}
	})
}

// With a publisher that gathers, the next look comes when that could send again and all is marked; neither is waited
// for without end.
func TestALookWaitsForAPublisherThatGathers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		publisher := gathering{ready: make(chan struct{})}
		r := pacing(publisher)
		l := look{asked: 1, found: 1, ended: time.Now()}
		if got := breath(t, r, l); got != r.cfg.PollInterval {
			t.Errorf("a publisher that is never ready was waited for %s, want %s", got, r.cfg.PollInterval)
		}
		time.AfterFunc(20*time.Millisecond, func() { close(publisher.ready) })
		if got := breath(t, r, l); got != 20*time.Millisecond {
			t.Errorf("waited %s, want until the publisher was ready after 20ms", got)
		}
		r.room--
		if got := breath(t, r, l); got != 2*longestBreather {
			t.Errorf("marks that never come were waited for %s, want %s", got, 2*longestBreather)
		}
		time.AfterFunc(2*time.Millisecond, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.roomLocked(1)
		})
		if got := breath(t, r, l); got != 2*time.Millisecond {
			t.Errorf("waited %s, want until all was marked after 2ms", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if r.breathe(ctx, l) == nil {
			t.Error("the end of the context was not told")
		}
	})
}
