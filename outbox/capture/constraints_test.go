package capture_test

import (
	"fmt"
	"testing"

	"github.com/postrider/postrider/outbox/capture"
)

// Rows may have one key until the statement or the transaction ends where its constraint is deferrable. Whoever follows the events has
// each row as it is then, by whatever way it came to its key.
func TestAKeyThatIsComparedLate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]capture.Capture{
		"all":            {Table: "c"},
		"old rows, too":  {Table: "c", Old: true},
		"no updates":     {Table: "c", Operations: []string{"insert", "delete"}},
		"chosen columns": {Table: "c", Exclude: []string{"k"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.run(t, `CREATE TABLE c (n text, id int, k text, PRIMARY KEY (id, k) DEFERRABLE)`, `INSERT INTO c SELECT 'before', i, 'k' FROM generate_series(1, 9) AS i`, `DELETE FROM c`, `CREATE VIEW seen AS SELECT n, id, k FROM c`)
			l.capture(t, c)
			for what, statements := range [][]string{
				{`INSERT INTO c SELECT i, i, 'k' FROM generate_series(1, 9) AS i`},
				{`UPDATE c SET id = id + 1 WHERE id > 5`},
				{`UPDATE c SET id = 11 - id`},
				{`BEGIN`, `SET CONSTRAINTS ALL DEFERRED`, `UPDATE c SET id = 2 WHERE n = '9'`, `UPDATE c SET id = 1 WHERE n = '8'`, `SET CONSTRAINTS ALL IMMEDIATE`, `UPDATE c SET k = 'l' WHERE id = 3`, `COMMIT`},
				{`BEGIN`, `SET CONSTRAINTS ALL DEFERRED`, `INSERT INTO c VALUES ('new', 4, 'k')`, `DELETE FROM c WHERE id = 4 AND n <> 'new'`, `COMMIT`},
				{`BEGIN`, `SET CONSTRAINTS ALL DEFERRED`, `INSERT INTO c VALUES ('new', 7, 'k')`, `DELETE FROM c WHERE id = 7 AND n = 'new'`, `COMMIT`},
				{`ALTER TABLE c RENAME id TO "id%I"`, `ALTER TABLE c RENAME TO "d d"`, `UPDATE "d d" SET "id%I" = 10 - "id%I"`},
				{`DELETE FROM "d d" WHERE "id%I" < 4`},
			} {
				l.in(t, fmt.Sprint("step ", what), statements...)
				if followed, kept := l.followed(t), one[string](t, l, `SELECT jsonb_object_agg('public.c:' || json_build_array(id, k), n)::text FROM seen`); !sameJSON(t, followed, kept) {
					t.Errorf("step %d: followed: %s\nin the table: %s", what, followed, kept)
				}
			}
		})
	}
}

// followed are the rows that whoever follows the events has, as JSON by their streams.
func (l lab) followed(t *testing.T) string {
	t.Helper()
	return one[string](t, l, `SELECT coalesce(jsonb_object_agg(e.stream_id, e.new ->> 'n') FILTER (WHERE e.new IS NOT NULL), '{}')::text
		FROM (SELECT DISTINCT ON (stream_id) stream_id, convert_from(payload, 'UTF8')::jsonb -> 'new' AS new FROM events ORDER BY stream_id, sequence DESC) AS e`)
}

// Views of captured and adopted tables are refreshed as before. A query that writes to one may queue nothing for the commit, and so its
// writer has constraints wait no more.
func TestMaterializedViews(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE c (id int PRIMARY KEY)`, `CREATE TABLE q (LIKE c INCLUDING ALL)`, `CREATE FUNCTION noted() RETURNS int LANGUAGE sql AS
		$$INSERT INTO public.q SELECT count(*) FROM public.q; INSERT INTO public.c SELECT count(*) FROM public.c RETURNING id$$`)
	l.capture(t, capture.Capture{Table: "c"})
	l.adopt(t, capture.Adoption{Table: "q", Map: map[string]string{"id": "event_id+payload"}, Stream: "q", Type: "t", NoImport: true})
	l.in(t, "views that read", `INSERT INTO c VALUES (-1)`, `CREATE MATERIALIZED VIEW v AS SELECT id FROM c UNION SELECT id FROM q`, `CREATE UNIQUE INDEX ON v (id)`, `INSERT INTO c VALUES (-2)`,
		`REFRESH MATERIALIZED VIEW v`, `REFRESH MATERIALIZED VIEW CONCURRENTLY v`)
	_, err := l.Exec(t.Context(), `CREATE MATERIALIZED VIEW w AS SELECT noted() AS id`)
	wantCode(t, err, "42501")
	const waits = `SET CONSTRAINTS ALL IMMEDIATE`
	l.in(t, "views that write", `BEGIN`, waits, `CREATE MATERIALIZED VIEW w AS SELECT noted() AS id`, `COMMIT`, `CREATE UNIQUE INDEX ON w (id)`,
		`BEGIN`, waits, `REFRESH MATERIALIZED VIEW w`, `COMMIT`, `BEGIN`, waits, `REFRESH MATERIALIZED VIEW CONCURRENTLY w`, `COMMIT`)
	var want []string
	for _, id := range []int{-1, -2} {
		want = append(want, fmt.Sprintf(`c public.c:%d c.inserted {"new":{"id":%[1]d}}`, id))
	}
	for id := range 3 {
		want = append(want, fmt.Sprintf(`default q t %d`, id), fmt.Sprintf(`c public.c:%d c.inserted {"new":{"id":%[1]d}}`, id+2))
	}
	l.tells(t, want...)
}

// A table that is captured itself becomes a partition of one that is, in one transaction: no row is missed, and none told twice.
func TestACapturedTableBecomesAPartition(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id)`, `CREATE TABLE part (id int PRIMARY KEY)`)
	l.capture(t, capture.Capture{Table: "p"})
	l.capture(t, capture.Capture{Table: "part"})
	const attaches = `ALTER TABLE p ATTACH PARTITION part FOR VALUES FROM (0) TO (9)`
	_, err := l.Exec(t.Context(), attaches)
	wantCode(t, err, "42710")
	l.in(t, "ATTACH", `INSERT INTO part VALUES (1)`, `BEGIN`, `DROP TRIGGER "00_postrider_capture" ON part`, `DROP TRIGGER "00_postrider_capture_truncate" ON part`, attaches, `COMMIT`, `INSERT INTO part VALUES (2)`, `INSERT INTO p VALUES (3)`)
	if _, err := l.Drop(t.Context(), capture.Captured, "part", capture.Options{}); err != nil {
		t.Error(err)
	}
	l.tells(t, `part public.part:1 part.inserted {"new":{"id":1}}`, `p public.p:2 p.inserted {"new":{"id":2}}`, `p public.p:3 p.inserted {"new":{"id":3}}`)
}
