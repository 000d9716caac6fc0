package capture

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// name is an object's name with its schema.
type name struct{ schema, name string }

func (n name) String() string { return n.schema + "." + n.name }
func (n name) quoted() string { return pgx.Identifier{n.schema, n.name}.Sanitize() }

func identifier(name string) string { return pgx.Identifier{name}.Sanitize() }

// literal quotes a text so that it means itself, whatever standard_conforming_strings says where it runs.
func literal(text string) string {
	quoted := "'" + strings.ReplaceAll(text, "'", "''") + "'"
	if strings.Contains(text, `\`) {
		return "E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}

func literals(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = literal(text)
	}
	return strings.Join(quoted, ", ")
}

// plain tells whether a text may be a topic or a type: package outbox has the rule.
func plain(text string) bool {
	return text != "" && len(text) <= 1024 && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl) && strings.Trim(text, " ") == text
}

// mostName is the longest name that PostgreSQL keeps whole, in bytes.
const mostName = 63

// functionOf is the name of the function for a table; a long one is cut and told apart by a sum.
func functionOf(kind Purpose, table name) name {
	function := fmt.Sprintf("postrider_%s_%s", kind, table.name)
	if len(function) > mostName {
		sum := fmt.Sprintf("_%08x", crc32.ChecksumIEEE([]byte(table.name)))
		function = strings.ToValidUTF8(function[:mostName-len(sum)], "") + sum
	}
	return name{table.schema, function}
}

// fixed are the settings under which a row has one text, whoever writes it. The path keeps others from saying what names mean.
const fixed = `SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO, YMD'
SET intervalstyle = 'iso_8601'
SET bytea_output = 'hex'
SET extra_float_digits = 1`

// making are the statements that make a function and its triggers. settings are kept as the function's comment.
func making(kind Purpose, t *table, events, body string, truncate bool, settings any) ([]string, error) {
	note, err := json.Marshal(settings)
	if err != nil {
		return nil, err
	}
	function := functionOf(kind, t.name)
	call := function.quoted() + "()"
	tag := "$postrider$"
	for strings.Contains(body, tag) {
		tag = "$_" + tag[1:]
	}
	list := []string{
		"CREATE FUNCTION " + call + " RETURNS pg_catalog.trigger\nLANGUAGE plpgsql SECURITY DEFINER\n" + fixed + " AS " + tag + "\n" + body + tag,
		"ALTER FUNCTION " + call + " OWNER TO " + t.owner,
		"REVOKE ALL ON FUNCTION " + call + " FROM PUBLIC",
		"COMMENT ON FUNCTION " + call + " IS " + literal(string(note)),
		"CREATE TRIGGER " + identifier(kind.trigger()) + " AFTER " + events + " ON " + t.quoted() + " FOR EACH ROW EXECUTE FUNCTION " + call,
	}
	if truncate {
		list = append(list, "CREATE TRIGGER "+identifier(kind.truncates())+" BEFORE TRUNCATE ON "+t.quoted()+" FOR EACH STATEMENT EXECUTE FUNCTION "+call)
	}
	return list, nil
}

// parameters are those of outbox_append_bytes, in their order: the field of an event, and its type.
var parameters = [][2]string{
	{"stream_id", "text"}, {"type", "text"}, {"payload", "bytea"}, {"expected_version", "bigint"}, {"metadata", "jsonb"}, {"topic", "text"},
	{"partition_key", "text"}, {"dedupe_key", "text"}, {"tenant_id", "text"}, {"publish", "boolean"}, {"available_at", "timestamptz"},
	{"event_id", "uuid"}, {"occurred_at", "timestamptz"},
}

// arguments are those of a call, up to its end: all of them, each with its type, so that no stranger's function of the name is meant.
func arguments(parameters [][2]string, fields map[string]string) string {
	given := make([]string, len(parameters))
	for i, p := range parameters {
		given[i] = "\n        (" + cmp.Or(fields[p[0]], "NULL") + ")::" + p[1]
	}
	return strings.Join(given, ",") + ")"
}
