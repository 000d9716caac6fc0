package capture_test

import (
	"context"
	"strings"
	"testing"

	"github.com/postrider/postrider/outbox/capture"
)

// What the owner's code does while it is read as the owner's puts nothing in the way of what is read afterwards, as whoever adopts.
func TestAdoptReadsNoViewOfTheOwners(t *testing.T) {
	t.Parallel()
	for name, puts := range map[string]string{
		"view":   `ALTER MATERIALIZED VIEW evil.postrider_adopt_waiting_box RENAME TO away`,
		"schema": `ALTER SCHEMA evil RENAME TO away; CREATE SCHEMA evil`,
	} {
		l := newLab(t)
		owner := l.role(t)
		t.Cleanup(func() {
			if _, err := l.Exec(context.Background(), `DROP SCHEMA evil CASCADE`); err != nil {
				t.Error(err)
			}
		})
		l.run(t, `CREATE SCHEMA evil AUTHORIZATION `+owner, `GRANT EXECUTE ON FUNCTION outbox_append_adopted TO `+owner, `CREATE TABLE loot (who text)`, `GRANT INSERT ON loot TO `+owner, `CREATE SEQUENCE lent`,
			`DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO `+owner+`', current_database()); END $$`)
		l.as(t, owner).run(t, `CREATE TYPE evil.t AS (a text)`,
			`CREATE FUNCTION evil.steal() RETURNS text LANGUAGE plpgsql AS $$ BEGIN
				IF pg_catalog.has_sequence_privilege(current_user, 'public.lent', 'UPDATE') THEN
					PERFORM pg_catalog.nextval('public.lent'); -- no ROLLBACK takes it back
				END IF;
				RETURN 's';
			END $$`,
			`CREATE FUNCTION evil.text_of(evil.t) RETURNS text LANGUAGE plpgsql AS $$ DECLARE
				away text := CASE WHEN '`+name+`' = 'view' THEN 'evil' ELSE 'away' END;
			BEGIN
				IF pg_catalog.to_regclass('evil.postrider_adopt_waiting_box') IS NOT NULL AND pg_catalog.to_regnamespace('away') IS NULL AND pg_catalog.to_regclass('evil.away') IS NULL THEN
					`+puts+`;
					EXECUTE 'CREATE VIEW evil.postrider_adopt_waiting_box AS SELECT ' || away || '.steal() AS source, ''r''::text AS row_key, NULL::uuid AS own_id, ' || away || '.steal() AS stream_id,
						''t''::text AS type, ''t''::text AS topic, ''''::bytea AS payload, NULL::text AS metadata, false AS of_headers, NULL::text AS tenant_id, NULL::text AS partition_key,
						NULL::timestamptz AS occurred_at, false AS unread, 1::bigint AS place, pg_catalog.length(' || away || '.steal())::bigint AS waiting';
				END IF;
				RETURN ($1).a;
			EXCEPTION WHEN OTHERS THEN RETURN ($1).a;
			END $$`,
			`CREATE CAST (evil.t AS text) WITH FUNCTION evil.text_of(evil.t)`,
			`CREATE TABLE evil.box (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), n serial, stream evil.t, body text)`, `INSERT INTO evil.box (stream, body) VALUES (ROW('s'), 'x')`)
		a := capture.Adoption{Table: "evil.box", Map: map[string]string{"id": "event_id", "stream": "stream_id", "body": "payload"}, Type: "t", Where: map[string]string{"stream": "s"}}
		for _, dry := range []bool{true, false} {
			_, err := l.Adopt(t.Context(), a, capture.Options{DryRun: dry})
			if name == "view" && err != nil || name == "schema" && (err == nil || !strings.Contains(err.Error(), "another view")) {
				t.Errorf("%s, dry run %t: %v", name, dry, err)
			}
			if one[bool](t, l, `SELECT is_called FROM lent`) {
				t.Fatalf("%s, dry run %t: the owner's code ran with the rights of who adopts", name, dry)
			}
		}
	}
}
