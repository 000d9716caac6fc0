package inbox_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// What policies hide from the consumer's role must not look like none: what is parked would wait for ever, without a word.
func TestPoliciesHideNothingSilently(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	times := -1
	b.process(t, event("s", 1), failing(1, &times, errors.New("not yet")))
	b.exec(t, `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO pg_signal_backend;
		GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO pg_signal_backend; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO pg_signal_backend;
		ALTER TABLE inbox_parked ENABLE ROW LEVEL SECURITY`)
	pool := pgtest.PoolAs(t, b.pool.Config().ConnString(), "pg_signal_backend")
	box, err := inbox.New(pool, inbox.Config{Name: "test", BackoffBase: time.Millisecond, BackoffMax: time.Millisecond, Jitter: inbox.JitterNone})
	if err != nil {
		t.Fatal(err)
	}
	retried, err := box.RetryDue(t.Context(), 1, apply)
	if err == nil || !strings.Contains(err.Error(), `"inbox_parked"`) || !strings.Contains(err.Error(), "BYPASSRLS") {
		t.Errorf("%d were retried, %v", retried, err)
	}
	for _, m := range []int64{1, 2} {
		if o, err := box.Process(t.Context(), event("s", m), apply); err == nil || !strings.Contains(err.Error(), `"inbox_parked"`) {
			t.Errorf("version %d: %+v, %v", m, o, err)
		}
	}
	b.exec(t, `ALTER TABLE inbox_parked DISABLE ROW LEVEL SECURITY`)
	b.box = box
	b.process(t, event("s", 2), apply)
	b.retryUntil(t, apply, nothingParked)
	if got := b.effects(t, "s"); len(got) != 2 || got[0] != 1 {
		t.Errorf("effects of versions %v", got)
	}
}
