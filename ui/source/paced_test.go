package source

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestSlowReadsAreRepeatedLessOften(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p paced[int64]
		var reads atomic.Int64
		read := func(ctx context.Context) (int64, error) {
			n := reads.Add(1)
			if n == 1 {
				return 0, errors.New("no answer")
			}
			<-time.After(200 * time.Millisecond)
			return n, ctx.Err()
		}
		if _, err := p.get(t.Context(), 0.01, read); err == nil {
			t.Error("the failure is not passed on")
		}
		for range 3 { // the first one waits, as there is nothing older
			if got, err := p.get(t.Context(), 0.01, read); err != nil || got != 2 {
				t.Errorf("%d, %v", got, err)
			}
		}
		<-time.After(19 * time.Second)
		if got, err := p.get(t.Context(), 0.01, read); err != nil || got != 2 || reads.Load() != 2 {
			t.Errorf("%d, %v; after 19 s a read of 200 ms is repeated at 1 %%", got, err)
		}
		<-time.After(time.Second)
		began := time.Now()
		if got, err := p.get(t.Context(), 0.01, read); err != nil || got != 2 || time.Since(began) > pacedWait {
			t.Errorf("%d, %v after %s; want what is known, at once", got, err, time.Since(began))
		}
		<-time.After(time.Second)
		if got, err := p.get(t.Context(), 0.01, read); err != nil || got != 3 || reads.Load() != 3 {
			t.Errorf("%d, %v; want what was read meanwhile", got, err)
		}
	})
}

// What must not be old is read again, however long it took once.
func TestASlowReadIsRepeatedInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := paced[int64]{most: 10 * time.Second}
		var reads atomic.Int64
		read := func(context.Context) (int64, error) {
			<-time.After(200 * time.Millisecond)
			return reads.Add(1), nil
		}
		for _, step := range []struct {
			wait time.Duration
			want int64
		}{{0, 1}, {9 * time.Second, 1}, {time.Second, 1}, {time.Second, 2}} {
			<-time.After(step.wait)
			if got, err := p.get(t.Context(), 0.0025, read); err != nil || got != step.want {
				t.Errorf("%s later: %d, %v; want %d", step.wait, got, err, step.want)
			}
		}
	})
}

// A read that never ends in time is not begun again and again.
func TestAReadThatTakesTooLongIsNotRepeatedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p paced[int64]
		var reads atomic.Int64
		read := func(ctx context.Context) (int64, error) {
			if reads.Add(1) == 1 {
				return 7, nil
			}
			<-ctx.Done()
			return 0, ctx.Err()
		}
		for second := range 120 {
			began := time.Now()
			if got, err := p.get(t.Context(), 0.01, read); err != nil || got != 7 || time.Since(began) > pacedWait {
				t.Fatalf("second %d: %d, %v after %s", second, got, err, time.Since(began))
			}
			<-time.After(time.Second)
		}
		if n := reads.Load(); n != 2 {
			t.Errorf("%d reads in two minutes", n)
		}
	})
}

// Whoever closes the pools ends the reads first, also those that nobody waits for any more.
func TestAReadEndsBeforeItsPoolIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		p := paced[int]{over: over}
		short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		ended := make(chan error, 1)
		_, err := p.get(short, 0.01, func(ctx context.Context) (int, error) {
			<-ctx.Done()
			ended <- ctx.Err()
			return 0, ctx.Err()
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it ends with %v", err)
		}
		began := time.Now()
		close(over)
		if err := <-ended; !errors.Is(err, context.Canceled) || time.Since(began) > 0 {
			t.Errorf("the read ended with %v after %s", err, time.Since(began))
		}
	})
}

// Who asks first and leaves does not take the read along.
func TestAReadOutlivesWhoAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p paced[int]
		read := func(ctx context.Context) (int, error) {
			<-time.After(10 * time.Second)
			return 1, ctx.Err()
		}
		short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := p.get(short, 0.01, read); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it ends with %v", err)
		}
		if got, err := p.get(t.Context(), 0.01, read); err != nil || got != 1 {
			t.Errorf("%d, %v", got, err)
		}
	})
}
