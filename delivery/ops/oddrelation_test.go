package ops_test

import (
	"testing"
	"time"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/delivery/pgstore"
)

// A table of one's own may have tenants that are UUIDs, and types that are an enum: lists and messages show their text.
func TestColumnsOfOtherTypesAreShownAsTheirText(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.exec(t, `CREATE TYPE kind AS ENUM ('paid')`)
	b.exec(t, `CREATE TABLE own AS SELECT 1::bigint AS sequence, gen_random_uuid() AS event_id, 's'::text AS stream_id, 1::bigint AS stream_version,
		'paid'::kind AS event_type, 't'::text AS topic, '{}'::jsonb AS payload, NULL::jsonb AS metadata, '018f0000-0000-7000-8000-000000000007'::uuid AS tenant_id, clock_timestamp() AS recorded_at`)
	b.exec(t, `INSERT INTO outbox (global_sequence, partition_key, stream_id, topic) VALUES (1, 0, 's', 't')`)
	op, err := ops.New(t.Context(), b.pool, "public", pgstore.Relation{Name: "own"})
	if err != nil {
		t.Fatal(err)
	}
	const tenant = "018f0000-0000-7000-8000-000000000007"
	for _, f := range []ops.Filter{{}, {Tenant: tenant}, {Type: "paid"}, {States: []ops.State{ops.Pending}, Tenant: tenant}, {States: []ops.State{ops.Published}}} {
		l, err := op.List(t.Context(), f, ops.Page{})
		if err != nil || len(l.Messages) == 1 && l.Messages[0].Type != "paid" || len(l.Messages) != 1 && len(f.States) == 0 {
			t.Errorf("%+v: %+v, %v", f, l.Messages, err)
		}
	}
	if d, err := op.Show(t.Context(), 1); err != nil || d.Event == nil || d.Event.TenantID != tenant || d.Type != "paid" {
		t.Errorf("shown %+v, %v", d, err)
	}
	if _, err := op.Causes(t.Context(), ops.Filter{}, time.Second); err != nil {
		t.Error(err)
	}
}
