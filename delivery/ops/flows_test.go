package ops_test

import (
	"math"
	"testing"
	"time"
)

// Batches count by what they hold, whatever the sample of each, and what was published longer ago does not.
func TestFlowsOfTopicsAndTypes(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	if f, err := b.op.Flows(t.Context()); err != nil || len(f.List) > 0 {
		t.Fatalf("of nothing %v, %v", f, err)
	}
	b.exec(t, `SELECT outbox_append('s', CASE WHEN n <= 200 THEN 'bulk' ELSE 'rare' END, '{}', topic => CASE WHEN n <= 200 THEN 'import' ELSE 'shop' END)
		FROM generate_series(1, 206) AS n`)
	const batch = `INSERT INTO outbox_deliveries (partition_key, lease_epoch, first_sequence, last_sequence, sequences, message_count, published_at)
		VALUES (0, 1, $1, $2, $3, $4, clock_timestamp() - $5::interval)`
	b.exec(t, batch, 1, 100, nil, 100, "20 s")
	b.exec(t, batch, 102, 200, []int64{102, 150, 151, 160, 170, 180, 200}, 7, "10 s")
	b.exec(t, batch, 201, 203, nil, 3, "5 s")
	b.exec(t, batch, 204, 204, nil, 1, "5 s")
	b.exec(t, batch, 205, 206, nil, 2, "2 minutes")
	f, err := b.op.Flows(t.Context())
	if err != nil || len(f.List) != 2 || f.Sampled != 5+5+3+1 || f.Span != time.Minute {
		t.Fatalf("%+v, %v", f, err)
	}
	for _, one := range f.List {
		want := map[string]float64{"import bulk": 107. / 60, "shop rare": 4. / 60}[one.Topic+" "+one.Type]
		if math.Abs(one.PerSecond-want) > 1e-9 {
			t.Errorf("%s, %s: %v a second, want %v", one.Topic, one.Type, one.PerSecond, want)
		}
	}
	b.exec(t, `INSERT INTO outbox_deliveries (partition_key, lease_epoch, first_sequence, last_sequence, message_count, published_at)
		SELECT 1, 1, 201, 201, 1, clock_timestamp() - interval '2 s' FROM generate_series(1, 300)`)
	if f, err = b.op.Flows(t.Context()); err != nil || len(f.List) != 1 || f.List[0].PerSecond < 50 || f.List[0].PerSecond > 100 || f.Span > 4*time.Second {
		t.Errorf("300 events two seconds ago: %+v, %v", f, err)
	}
}
