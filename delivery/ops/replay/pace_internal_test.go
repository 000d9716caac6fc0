package replay

import (
	"testing"
	"testing/synctest"
	"time"
)

// Steps of 100 events at 1,000 a second begin a tenth of a second apart, whatever
// they take, and a slow one is not made up for.
func TestTheRateIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, began := pacer{rate: 1000}, time.Now()
		for i, step := range []struct{ takes, at time.Duration }{
			{0, 0},
			{60 * time.Millisecond, 100 * time.Millisecond},
			{250 * time.Millisecond, 200 * time.Millisecond},
			{0, 450 * time.Millisecond},
			{0, 550 * time.Millisecond},
		} {
			if err := p.wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if at := time.Since(began); at != step.at {
				t.Errorf("step %d began after %s, want %s", i, at, step.at)
			}
			if err := pause(t.Context(), step.takes); err != nil {
				t.Fatal(err)
			}
			p.add(100)
		}
	})
}
