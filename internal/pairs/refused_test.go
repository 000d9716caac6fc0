package pairs_test

import (
	"fmt"
	"net/url"
	"testing"
)

// logFunctions are those that tell of the server's log. Managed servers refuse some.
const logFunctions = `pg_control_system(), pg_walfile_name(pg_lsn), pg_current_wal_insert_lsn(), pg_current_wal_flush_lsn()`

// refused has workers of a plain role whose server gives them none of these functions. When it ends, one of them is
// replaced by a worker that has them: both kinds work side by side.
func refused(s *stage, _ int) act {
	return act{
		begin: func(t *testing.T) {
			t.Helper()
			role := named("relay")
			for _, sql := range []string{
				`CREATE ROLE ` + role + ` LOGIN PASSWORD 'relay'`, `GRANT USAGE ON SCHEMA public TO ` + role,
				`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO ` + role, `DO $$ DECLARE t text; BEGIN FOR t IN SELECT oid::regclass FROM pg_class WHERE relname LIKE 'events%' AND relkind IN ('r', 'p')
					LOOP EXECUTE 'REVOKE INSERT ON ' || t || ' FROM ` + role + `'; END LOOP; END $$`,
				`GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO ` + role, `REVOKE EXECUTE ON FUNCTION ` + logFunctions + ` FROM PUBLIC`,
			} {
				s.exec(t, sql)
			}
			address, err := url.Parse(s.DatabaseURL)
			if err != nil {
				t.Fatal(err)
			}
			address.User = url.UserPassword(role, "relay")
			s.flags = []string{"--database-url=" + address.String()}
			s.replace(t, len(s.workers))
			if n := s.Count(t, `SELECT count(*) FROM pg_stat_activity WHERE usename = $1 AND datname = current_database()`, role); n == 0 {
				t.Error("no worker is of the plain role")
			}
			if n := s.Count(t, fmt.Sprintf(`SELECT count(*) FROM unnest(ARRAY['pg_control_system()', 'pg_current_wal_flush_lsn()']) AS f
				WHERE has_function_privilege('%s', f, 'EXECUTE')`, role)); n > 0 {
				t.Errorf("the role may call %d of the functions", n)
			}
		},
		end: func(t *testing.T) {
			t.Helper()
			s.exec(t, `GRANT EXECUTE ON FUNCTION `+logFunctions+` TO PUBLIC`)
			s.flags = nil
			s.replace(t, 1)
		},
	}
}
