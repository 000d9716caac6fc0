package projection_test

import (
	"context"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/projection"
)

// Events that policies begin to hide were not forgotten: no stream dies, what is wrong is named, and all goes on by itself behind it.
func TestHiddenEventsAreNotForgotten(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.exec(t, `GRANT SELECT ON ALL TABLES IN SCHEMA public TO pg_signal_backend`)
	b.append(t, events("a", "paid", 3)...)
	p := b.make(t, projection.Outbox, func(c *projection.Config) {
		c.Journal = pgtest.PoolAs(t, b.pool.Config().ConnString(), "pg_signal_backend")
	})
	b.start(t, p)
	b.until(t, 3, `SELECT count(*) FROM projection.entries`)
	b.exec(t, `ALTER TABLE events ENABLE ROW LEVEL SECURITY`)
	b.append(t, events("a", "paid", 4)...)
	if done, err := p.Announce(t.Context(), map[string]int64{"a": 7}); err != nil || len(done) != 1 {
		t.Fatal(done, err)
	}
	b.untilTrue(t, "what is wrong is named", func(context.Context) (bool, error) {
		return strings.Contains(b.log.text(), "row-level security of the events"), nil
	})
	if _, err := p.Detect(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "BYPASSRLS") {
		t.Errorf("a look for gaps ends with %v", err)
	}
	if n := b.count(t, `SELECT count(*) FROM projection.projection_streams WHERE attempts > 0 OR dead_at IS NOT NULL`); n != 0 {
		t.Errorf("%d streams have failed: %s", n, b.log.text())
	}
	b.exec(t, `ALTER TABLE events DISABLE ROW LEVEL SECURITY`)
	b.until(t, 7, `SELECT count(*) FROM projection.entries`)
}
