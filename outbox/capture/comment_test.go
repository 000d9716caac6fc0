package capture_test

import (
	"fmt"
	"testing"

	"github.com/postrider/postrider/outbox/capture"
)

// A table's owner may change the comment with the settings. Whoever drops the trigger, or prunes, runs no statement of it: they may be a superuser.
func TestACommentIsNoStatement(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	if one[int](t, l, `SELECT current_setting('server_version_num')::int`) < 150000 {
		t.Skip("publications have filters since PostgreSQL 15")
	}
	owner := l.role(t)
	l.run(t, `CREATE TABLE secrets (id int PRIMARY KEY)`, `CREATE PUBLICATION theirs FOR TABLE outbox_ready`, `GRANT USAGE, CREATE ON SCHEMA public TO `+owner, `GRANT EXECUTE ON FUNCTION outbox_append_bytes TO `+owner)
	for i, filter := range []string{
		`true); ALTER ROLE ` + owner + ` SUPERUSER; --`, `true), TABLE secrets WHERE (true`, `true) /*`, `'\') ; ALTER ROLE ` + owner + ` SUPERUSER; --'`, `E'\'' = ''); ALTER ROLE ` + owner + ` SUPERUSER; --'`,
		`"v" = $$)$$); ALTER ROLE ` + owner + ` SUPERUSER; --`, `'`, `(true`, `true)`, `U&'\0027' = 'x'); ALTER ROLE ` + owner + ` SUPERUSER; --'`,
	} {
		table := fmt.Sprintf("t%d", i)
		l.run(t, `CREATE TABLE `+table+` (id int PRIMARY KEY, v text)`, `ALTER TABLE `+table+` OWNER TO `+owner)
		l.capture(t, capture.Capture{Table: table})
		if _, err := l.as(t, owner).Exec(t.Context(), `DO $do$ BEGIN EXECUTE format('COMMENT ON FUNCTION postrider_capture_`+table+`() IS %L', obj_description('postrider_capture_`+table+`'::regproc)::jsonb
				|| jsonb_build_object('publication', jsonb_build_object('name', 'theirs', 'where', convert_from(decode('`+fmt.Sprintf("%x", filter)+`', 'hex'), 'UTF8')))); END $do$`); err != nil {
			t.Fatal(err)
		}
		_, err := l.Drop(t.Context(), capture.Captured, table, capture.Options{})
		wantRefused(t, err, "--leave-publication", "postrider_capture_"+table)
		_, err = l.Apply(t.Context(), nil, capture.Options{Prune: true, Confirmed: true})
		wantRefused(t, err, "--leave-publication")
		if _, err := l.Drop(t.Context(), capture.Captured, table, capture.Options{LeavePublication: true}); err != nil {
			t.Error(err)
		}
		if one[bool](t, l, `SELECT rolsuper FROM pg_roles WHERE rolname = $1`, owner) || one[int](t, l, `SELECT count(*) FROM pg_publication_tables WHERE pubname = 'theirs'`) != 1 {
			t.Fatalf("%s was run", filter)
		}
	}
	// What PostgreSQL itself writes comes back.
	l.run(t, `CREATE TABLE kinds (id int, kind text, PRIMARY KEY (id, kind))`, `CREATE PUBLICATION parted FOR TABLE kinds WHERE (kind IN ('a''); --', '(') AND ((id) - 1) > -7 OR kind = '/*"')`)
	const published = `SELECT rowfilter FROM pg_publication_tables WHERE pubname = 'parted'`
	before := one[string](t, l, published)
	if _, err := l.Capture(t.Context(), capture.Capture{Table: "kinds"}, capture.Options{Publication: "parted"}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Drop(t.Context(), capture.Captured, "kinds", capture.Options{}); err != nil {
		t.Fatal(err)
	}
	if got := one[string](t, l, published); got != before {
		t.Errorf("published is %s, was %s", got, before)
	}
}
