package capture

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

// fixed are the settings under which a row has one text, whoever writes it. The path protects the meaning of names.
const fixed = `SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO, YMD'
SET intervalstyle = 'iso_8601'
SET bytea_output = 'hex'
SET extra_float_digits = 1
SET lc_monetary = 'C'
SET quote_all_identifiers = off
SET row_security = on`

// note is the part of a function's comment besides the settings.
type note struct {
	Table string `json:"table"`
	// Relation and Numbers identify the table and its columns for PostgreSQL, whatever their names are now. Used are the columns of an
	// adoption.
	Relation uint32           `json:"relation"`
	Numbers  map[string]int16 `json:"numbers"`
	Used     []string         `json:"used,omitempty"`
	Backfill *backfilled      `json:"backfill,omitempty"`
	// Publication is the one that the table left.
	Publication *membership `json:"publication,omitempty"`
}

// kept joins settings and note in one object.
func kept(settings, n any) (string, error) {
	all := map[string]json.RawMessage{}
	for _, one := range []any{settings, n} {
		text, err := json.Marshal(one)
		if err != nil {
			return "", err
		}
		part := map[string]json.RawMessage{}
		if err := json.Unmarshal(text, &part); err != nil {
			return "", err
		}
		maps.Copy(all, part)
	}
	text, err := json.Marshal(all)
	return string(text), err
}

// making returns the statements that make a function and its triggers. settings are kept as the function's comment.
func making(kind Purpose, t *table, events, body string, truncate bool, settings any) ([]string, error) {
	numbers := map[string]int16{}
	for _, c := range t.columns {
		numbers[c.Name] = c.Number
	}
	comment, err := kept(settings, note{t.String(), t.oid, numbers, t.used, t.filled, t.left})
	if err != nil {
		return nil, err
	}
	function := functionOf(kind, t.name)
	call := function.quoted() + "()"
	body = strings.Replace(body, "BEGIN\n", "BEGIN\n"+strings.NewReplacer("{TABLE}", fmt.Sprint(t.oid), "{FUNCTION}", literal(identifier(t.outbox)+".outbox_without_enqueue()")).Replace(t.guard)+"\n", 1)
	list := []string{
		"CREATE FUNCTION " + call + " RETURNS pg_catalog.trigger\nLANGUAGE plpgsql SECURITY DEFINER\n" + fixed + " AS " + dollars(body),
		"ALTER FUNCTION " + call + " OWNER TO " + t.owner,
		"REVOKE ALL ON FUNCTION " + call + " FROM PUBLIC",
		"DO " + dollars(strings.ReplaceAll(t.revoked, "{FUNCTION}", literal(call))),
		"COMMENT ON FUNCTION " + call + " IS " + literal(comment),
		"CREATE TRIGGER " + identifier(kind.trigger()) + " AFTER " + events + " ON " + t.quoted() + " FOR EACH ROW EXECUTE FUNCTION " + call,
	}
	if truncate {
		list = append(list, "CREATE TRIGGER "+identifier(kind.truncates())+" BEFORE TRUNCATE ON "+t.quoted()+" FOR EACH STATEMENT EXECUTE FUNCTION "+call)
	}
	if t.before != nil && t.before.enabled == "A" { // the replaced one fires for replicated changes, too
		list = append(list, "ALTER TABLE "+t.quoted()+" ENABLE ALWAYS TRIGGER "+identifier(kind.trigger()))
	}
	return append(list, t.leaves()...), nil
}

// dollars quotes a body, which may hold names with dollars of their own.
func dollars(body string) string {
	tag := "$postrider$"
	for strings.Contains(body, tag) {
		tag = "$_" + tag[1:]
	}
	return tag + "\n" + body + tag
}
