package ops_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// grants are the rights of an operator: what `migrate print` gives monitor and operator, and what comes on top of it.
const grants = `
GRANT SELECT ON outbox_messages, outbox, outbox_deliveries, outbox_partitions,
      outbox_workers, outbox_throughput, outbox_audit, outbox_settings, outbox_schema_version TO {role};
GRANT UPDATE, DELETE ON outbox TO {role};
GRANT INSERT ON outbox_deliveries, outbox_audit TO {role};
GRANT INSERT, UPDATE ON outbox_throughput TO {role};
GRANT UPDATE (paused_at, updated_at) ON outbox_partitions TO {role};
GRANT UPDATE (drain_requested_at) ON outbox_workers TO {role};
GRANT SELECT (sequence, event_id, stream_id, stream_version, event_type, topic, tenant_id,
              metadata, audit_only, occurred_at, recorded_at) ON events TO {role};
GRANT SELECT, INSERT, UPDATE ON outbox_replays TO {role};
GRANT SELECT, INSERT, DELETE ON outbox_replay_sequences TO {role};
GRANT INSERT ON outbox TO {role};`

// An operator needs no more than these rights; the payload is one more.
func TestAnOperatorsRights(t *testing.T) {
	t.Parallel()
	address := pgtest.Migrated(t, 2)
	owner := &bundle{pool: pgtest.Pool(t, address)}
	role := pgx.Identifier{"operator_" + strings.ReplaceAll(uuid.NewString(), "-", "")}.Sanitize()
	owner.exec(t, `CREATE ROLE `+role)
	t.Cleanup(func() { cleanUp(t, address, role) })
	owner.exec(t, strings.ReplaceAll(grants, "{role}", role))

	pool := pgtest.PoolAs(t, address, role)
	op, err := ops.New(t.Context(), pool, "public", pgstore.Relation{})
	if err != nil {
		t.Fatal(err)
	}
	one, two, three, published := owner.append(t, "a"), owner.append(t, "b"), owner.append(t, "c"), owner.append(t, "d")
	owner.kill(t, "e", one, two, three)
	owner.publish(t, published)
	worker := uuid.UUID{15: 1}
	owner.member(t, worker, "1 min")
	resizes := []string{
		`UPDATE (partition_count, generation, frozen_at, frozen_by, resized_at, resized_delivery) ON "public".outbox_settings`, `INSERT ON "public".outbox_partitions`,
		`UPDATE ON "public".outbox_partitions`, `DELETE ON "public".outbox_partitions`, `INSERT ON "public".outbox_former_partitions`,
		`DELETE ON "public".outbox_former_partitions`,
	}
	wantMissing(t, op, ops.Missing{Payload: []string{`SELECT (payload) ON "public"."events"`}, Resize: resizes})
	for what, do := range map[string]func() error{
		"list": func() error {
			_, err := op.List(t.Context(), ops.Filter{Type: "thing.done"}, ops.Page{})
			return err
		},
		"show":    func() error { _, err := op.Show(t.Context(), published); return err },
		"requeue": func() error { _, err := op.Requeue(t.Context(), command(one)); return err },
		"skip":    func() error { _, err := op.Skip(t.Context(), command(two)); return err },
		"discard": func() error { _, err := op.Discard(t.Context(), command(three)); return err },
		"pause": func() error {
			_, err := op.Pause(t.Context(), ops.PauseCommand{All: true, Actor: "a"})
			return err
		},
		"drain": func() error {
			_, err := op.Drain(t.Context(), ops.DrainCommand{Worker: worker, Actor: "a"})
			return err
		},
		"audit":     func() error { _, err := op.Audit(t.Context(), 0, 0); return err },
		"partition": func() error { _, err := op.Partition(t.Context(), 0, 0); return err },
	} {
		if err := do(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := op.Payload(t.Context(), one); err == nil {
		t.Error("the payload was read without the right to it")
	}
	owner.exec(t, `REVOKE UPDATE (paused_at) ON outbox_partitions FROM `+role+`; REVOKE SELECT ON outbox_audit FROM `+role+`;
		REVOKE SELECT (metadata) ON events FROM `+role)
	if _, err := op.Resume(t.Context(), ops.PauseCommand{All: true, Actor: "a"}); err == nil {
		t.Error("resumed without the right to it")
	}
	events := `SELECT (sequence, stream_version, occurred_at, recorded_at, event_id, audit_only, stream_id, event_type, topic, tenant_id, metadata) ON "public"."events"`
	wantMissing(t, op, ops.Missing{
		Look: []string{events}, Act: []string{`UPDATE (updated_at, paused_at) ON "public".outbox_partitions`},
		Audit: []string{`SELECT ON "public".outbox_audit`}, Payload: []string{`SELECT (payload) ON "public"."events"`},
		Replay: []string{`SELECT ON "public".outbox_audit`}, Resize: resizes,
	})
}

func wantMissing(t *testing.T, op *ops.Operator, want ops.Missing) {
	t.Helper()
	got, err := op.MissingRights(t.Context())
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("missing rights %v, %v; want %v", got, err, want)
	}
}

func cleanUp(t *testing.T, address, role string) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), address)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close(context.Background())
	for _, sql := range []string{`DROP OWNED BY ` + role, `DROP ROLE ` + role} {
		if _, err := conn.Exec(context.Background(), sql); err != nil {
			t.Error(err)
		}
	}
}
