package capture_test

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/outbox/capture"
)

// An INSERT does not fail for metadata or a key that leave no room for where the event is from.
func TestMetadataJustBelowTheLimitIsAdopted(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE queue (id text PRIMARY KEY, meta text)`)
	l.adopt(t, capture.Adoption{Table: "queue", Stream: "s", Type: "t", NoImport: true, Map: map[string]string{"id": "event_id+payload", "meta": "metadata"}})
	for id, meta := range map[string]string{
		"a": `{"of": "` + strings.Repeat("x", 262144-40) + `"}`, "b": `{}`,
	} {
		if _, err := l.Exec(t.Context(), `ALTER TABLE queue DROP CONSTRAINT IF EXISTS queue_pkey; INSERT INTO queue VALUES (repeat('`+id+`', 100000), '`+meta+`')`); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	if n := one[int](t, l, `SELECT count(*) FROM events WHERE octet_length(metadata #>> '{adopted,row}') < 1100`); n != 2 {
		t.Errorf("%d events with a short key, want 2", n)
	}
}
