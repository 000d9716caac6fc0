package loop_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery/ops/parts"
	"github.com/postrider/postrider/delivery/pgstore"
)

// A day's hours, and how many of them are kept.
const (
	dayHours  = 24
	keepHours = 4
	// hourlyEvents are appended in each.
	hourlyEvents = 50
)

// A day under load, whose hours pass as soon as their events are delivered: everything that was noted becomes an hour older. When it is
// over, two records of a partition are left at most, and no table has more than it had at noon.
func TestADayLeavesNothingThatOnlyGrows(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	b.acquireAll(t, b.keeper)
	relay, _ := b.trimming(t, testLogger(t))
	b.start(t, relay)
	sweeper, err := pgstore.NewSweeper(b.store, b.pool, pgstore.RetentionConfig{History: keepHours * time.Hour, Throughput: keepHours * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	events, err := parts.New(parts.Config{Pool: b.pool, Schema: "public"})
	if err != nil {
		t.Fatal(err)
	}
	who := parts.Who{Actor: "test", Reason: "a test"}
	if _, err := events.Split(t.Context(), who); err != nil {
		t.Fatal(err)
	}
	var noon map[string]int
	for hour := 1; hour <= dayHours; hour++ {
		for n := range hourlyEvents {
			b.exec(t, fmt.Sprintf(`SELECT outbox_append('s%d', 't', '{}', dedupe_key => 'hour %d, event %d')`, n%10, hour, n))
			b.bell.Ring()
		}
		b.until(t, `SELECT count(*) FROM outbox`, 0)
		b.passAnHour(t)
		if _, err := sweeper.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, _, err := events.Begin(t.Context(), who); err != nil {
			t.Fatal(err)
		}
		if hour > keepHours {
			list, err := events.List(t.Context())
			if err == nil {
				err = events.Drop(t.Context(), list[0], parts.Archived{}, who)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if hour == dayHours/2 {
			noon = b.rows(t)
		}
	}
	b.untilTrimmed(t)
	for table, n := range b.rows(t) {
		most := noon[table] + noon[table]/3 + 5
		switch table {
		case "outbox_audit": // what operators did, here to begin parts and to drop them, is kept
			continue
		case "outbox_deliveries": // batches are of one event or of some, as it happens
			most = (keepHours + 1) * hourlyEvents
		}
		if n > most {
			t.Errorf("%s has %d rows at midnight and had %d at noon", table, n, noon[table])
		}
	}
	if noon["events"] != keepHours*hourlyEvents || noon["outbox_deliveries"] == 0 || noon["outbox_throughput"] == 0 || noon["outbox_dedupe_keys"] == 0 {
		t.Errorf("at noon there were %v", noon)
	}
}

// passAnHour has everything that was noted happen an hour earlier. Minutes are unique, so they go by way of another millennium.
func (b *bundle) passAnHour(t *testing.T) {
	t.Helper()
	for _, sql := range []string{
		`UPDATE outbox_deliveries SET published_at = published_at - interval '1 hour'`,
		`UPDATE outbox_dedupe_keys SET created_at = created_at - interval '1 hour'`,
		`UPDATE outbox_throughput SET minute = minute - interval '1000 years'`,
		`UPDATE outbox_throughput SET minute = minute + interval '1000 years' - interval '1 hour'`,
	} {
		b.exec(t, sql)
	}
}

// rows counts those of all tables, of the partitioned ones as a whole.
func (b *bundle) rows(t *testing.T) map[string]int {
	t.Helper()
	rows, err := b.pool.Query(t.Context(), `SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition`)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, name := range names {
		counts[name] = b.number(t, `SELECT count(*) FROM `+pgx.Identifier{name}.Sanitize())
	}
	return counts
}
