package deployment_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// later is what a migration of a later version may do: add, and say so.
const later = `
ALTER TABLE outbox_workers ADD COLUMN later text NOT NULL DEFAULT 'x';
ALTER TABLE outbox_partitions ADD COLUMN later timestamptz;
ALTER TABLE outbox_deliveries ADD COLUMN later bigint[];
ALTER TABLE outbox_settings ADD COLUMN later int NOT NULL DEFAULT 0;
CREATE TABLE outbox_later (id int);
INSERT INTO outbox_schema_version (version_id, is_applied) SELECT max(version_id) + 1, true FROM outbox_schema_version`

// docs/operations.md, Upgrading: workers go on with a newer schema, hand over, and can be started on it, unless it says that it is not for them.
func TestWorkersGoOnWithANewerSchema(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	c := clustertest.New(t, clustertest.Config{Partitions: 8})
	c.Subscribe(t, nil)
	workers := c.Start(t, 2)
	c.WaitShared(t, workers...)
	load := c.Produce(t, clustertest.Load{})
	load.WaitCommitted(t, 200)
	if _, err := c.Pool.Exec(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	mustPostrider(t, c.Environment(), "migrate", "up") // nothing to do
	mustPostrider(t, c.Environment(), "doctor")
	load.WaitCommitted(t, 200)
	workers[0].Signal(t, syscall.SIGTERM)
	if status := workers[0].Exit(t); status != 0 {
		t.Errorf("the worker ended with %d", status)
	}
	workers[0] = c.Start(t, 1)[0]
	c.WaitShared(t, workers...)
	load.WaitCommitted(t, 200)
	if _, err := c.Pool.Exec(t.Context(), `UPDATE outbox_settings SET usable_from = (SELECT max(version_id) FROM outbox_schema_version)`); err != nil {
		t.Fatal(err)
	}
	_, stderr, status := postrider(t, c.Environment(), "run", "--http-addr=off")
	if status != 1 || !strings.Contains(stderr, "upgrade postrider") {
		t.Errorf("an old worker on a schema that is not for it ended with %d: %s", status, stderr)
	}
	load.WaitCommitted(t, 200)
	c.Verify(t)
}

// A new worker refuses tables that are older, and says what to do.
func TestANewWorkerRefusesAnOlderSchema(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	c := clustertest.New(t, clustertest.Config{Partitions: 8})
	const earlier = `DELETE FROM outbox_schema_version WHERE version_id = (SELECT max(version_id) FROM outbox_schema_version)`
	if _, err := c.Pool.Exec(t.Context(), earlier); err != nil {
		t.Fatal(err)
	}
	_, stderr, status := postrider(t, c.Environment(), "run", "--http-addr=off")
	if status != 1 || !strings.Contains(stderr, "postrider migrate up") {
		t.Errorf("a new worker on an older schema ended with %d: %s", status, stderr)
	}
}
