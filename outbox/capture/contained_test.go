package capture_test

import (
	"context"
	"strings"
	"testing"

	"github.com/postrider/postrider/outbox/capture"
)

// A superuser who adopts runs what the table's owner wrote as that owner: no role is taken off, and nothing waits for the COMMIT.
func TestAdoptLendsTheOwnerNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	owner := l.role(t)
	t.Cleanup(func() {
		if _, err := l.Exec(context.Background(), `DROP SCHEMA evil CASCADE`); err != nil {
			t.Error(err)
		}
	})
	l.run(t, `CREATE SCHEMA evil AUTHORIZATION `+owner, `GRANT EXECUTE ON FUNCTION outbox_append_adopted TO `+owner)
	o := l.as(t, owner)
	o.run(t, `CREATE TABLE evil.loot (who text)`,
		`CREATE FUNCTION evil.steal(how text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
			BEGIN EXECUTE 'RESET ROLE'; EXCEPTION WHEN OTHERS THEN NULL; END;
			BEGIN EXECUTE 'RESET SESSION AUTHORIZATION'; EXCEPTION WHEN OTHERS THEN NULL; END;
			IF current_user <> '`+owner+`' THEN
				RAISE EXCEPTION '% as %', how, current_user USING ERRCODE = 'XX999';
			END IF;
			BEGIN INSERT INTO evil.later VALUES (1); EXCEPTION WHEN OTHERS THEN NULL; END;
			INSERT INTO evil.loot VALUES (how);
		END $$`,
		`CREATE TYPE evil.t AS (a text)`,
		`CREATE FUNCTION evil.text_of(evil.t) RETURNS text LANGUAGE plpgsql AS $$ BEGIN PERFORM evil.steal('cast'); RETURN ($1).a; END $$`,
		`CREATE CAST (evil.t AS text) WITH FUNCTION evil.text_of(evil.t)`,
		`CREATE FUNCTION evil.trap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM evil.steal(TG_WHEN || ' ' || TG_OP); RETURN OLD; END $$`,
		`CREATE TABLE evil.later (n int)`, `CREATE CONSTRAINT TRIGGER late AFTER INSERT ON evil.later DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION evil.trap()`,
		`CREATE TABLE evil.box (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), n serial, stream evil.t, body text)`,
		`CREATE TRIGGER trap BEFORE DELETE ON evil.box FOR EACH ROW EXECUTE FUNCTION evil.trap()`,
		`INSERT INTO evil.box (stream, body) VALUES (ROW('s'), 'x'), (ROW('s'), 'y')`)
	a := capture.Adoption{
		Table: "evil.box", Map: map[string]string{"id": "event_id", "stream": "stream_id", "body": "payload"}, Type: "t", Delete: true,
		Where: map[string]string{"stream": "s"},
	}
	if _, err := l.Adopt(t.Context(), a, capture.Options{DryRun: true}); err != nil {
		t.Errorf("dry run: %v", err)
	}
	if done, err := l.Adopt(t.Context(), a, capture.Options{}); err != nil || done.Imported != 2 {
		t.Fatalf("%d rows were imported: %v", done.Imported, err)
	}
	if got := one[string](t, l, `SELECT string_agg(DISTINCT who, ', ' ORDER BY who) FROM evil.loot`); !strings.Contains(got, "BEFORE DELETE, cast") {
		t.Errorf("ran: %s", got)
	}
	if n := one[int](t, l, `SELECT (SELECT count(*) FROM evil.box) * 100 + (SELECT count(*) FROM pg_class WHERE relkind = 'm') * 10 + (SELECT count(*) FROM pg_proc WHERE proname LIKE 'postrider\_%')`); n != 1 {
		t.Errorf("%d: rows, views and functions are left, want one function", n)
	}
}

// Rows that row level security hides from the owner are no rows less.
func TestRowsThatAPolicyHides(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	owner := l.role(t)
	l.run(t, `GRANT CREATE ON SCHEMA public TO `+owner, `GRANT EXECUTE ON FUNCTION outbox_append_adopted, outbox_adopted_event, outbox_append_batch TO `+owner,
		`GRANT SELECT ON events, outbox_stream_heads TO `+owner)
	o := l.as(t, owner)
	o.run(t, `CREATE TABLE queue (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), n serial, body text)`, `INSERT INTO queue (body) VALUES ('x')`,
		`ALTER TABLE queue ENABLE ROW LEVEL SECURITY`)
	a := capture.Adoption{Table: "queue", Map: map[string]string{"id": "event_id", "body": "payload"}, Stream: "s", Type: "t", Delete: true}
	o.run(t, `ALTER TABLE queue FORCE ROW LEVEL SECURITY`)
	for _, who := range []lab{o, l} {
		for _, dry := range []bool{true, false} {
			_, err := who.Adopt(t.Context(), a, capture.Options{DryRun: dry})
			if wantCode(t, err, "42501"); err != nil && !strings.Contains(err.Error(), `public.queue from its owner`) {
				t.Errorf("it says %v", err)
			}
		}
	}
	o.run(t, `ALTER TABLE queue NO FORCE ROW LEVEL SECURITY`)
	if done, err := o.Adopt(t.Context(), a, capture.Options{}); err != nil || done.Imported != 1 {
		t.Errorf("%d rows were imported: %v", done.Imported, err)
	}
}
