package capture_test

import (
	"testing"

	"github.com/postrider/postrider/outbox/capture"
)

// Rows are removed from the table that was adopted, whatever it is called by now, and from no other that has its name.
func TestARenamedTableLosesItsOwnRows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ table, renames, now string }{
		{`CREATE TABLE queue (id int PRIMARY KEY, body text)`, `ALTER TABLE queue RENAME TO "Old queue"`, `"Old queue"`},
		{`CREATE TABLE queue (id int PRIMARY KEY, body text)`, `CREATE SCHEMA attic; ALTER TABLE queue SET SCHEMA attic`, `attic.queue`},
		{
			`CREATE TABLE queue (id int PRIMARY KEY, body text) PARTITION BY RANGE (id); CREATE TABLE part PARTITION OF queue FOR VALUES FROM (0) TO (9)`,
			`ALTER TABLE queue RENAME TO older`, `older`,
		},
	} {
		l := newLab(t)
		l.run(t, c.table)
		l.adopt(t, capture.Adoption{Table: "queue", Stream: "s", Type: "t", Delete: true, NoImport: true, Map: map[string]string{"id": "event_id", "body": "payload"}})
		insert := func(table, id string) { t.Helper(); l.run(t, `INSERT INTO `+table+` VALUES (`+id+`, 'x')`) }
		insert("queue", "1")
		l.run(t, c.renames)
		insert(c.now, "2")
		l.run(t, `CREATE TABLE queue (id int PRIMARY KEY, body text)`)
		insert("queue", "3")
		insert(c.now, "3")
		if others, own := one[int](t, l, `SELECT count(*) FROM queue`), one[int](t, l, `SELECT count(*) FROM `+c.now); others != 1 || own != 0 {
			t.Errorf("%s: the other table has %d rows, want 1; %s %d, want 0", c.renames, others, c.now, own)
		}
		if n := one[int](t, l, `SELECT count(*) FROM events`); n != 3 {
			t.Errorf("%s: %d events, want 3", c.renames, n)
		}
	}
}
