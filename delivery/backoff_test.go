package delivery_test

import (
	"testing"
	"time"

	"github.com/postrider/postrider/delivery"
)

func TestRetriesBackOff(t *testing.T) {
	t.Parallel()
	p := delivery.DefaultRetryPolicy()
	p.Jitter = delivery.JitterNone
	for attempts, want := range map[int]time.Duration{
		1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 9: 256 * time.Second, 10: 5 * time.Minute, 5000: 5 * time.Minute,
	} {
		if got := p.Delay(attempts, nil); got != want {
			t.Errorf("after %d failures: %s, want %s", attempts, got, want)
		}
	}
	p.Jitter = delivery.JitterEqual
	for draw, want := range map[float64]time.Duration{0: 2 * time.Second, 0.5: 3 * time.Second, 0.999999: 4 * time.Second} {
		if got := p.Delay(3, func() float64 { return draw }).Round(time.Millisecond); got != want {
			t.Errorf("drawing %g: %s, want %s", draw, got, want)
		}
	}
	if p.Dead(7) || !p.Dead(8) {
		t.Error("eight failures are the end, not seven")
	}
	p.MaxAttempts = 0
	if p.Dead(1 << 30) {
		t.Error("0 means never")
	}
}
