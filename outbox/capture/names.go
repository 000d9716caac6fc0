package capture

import (
	"cmp"
	"fmt"
	"hash/crc32"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// name is an object's name with its schema.
type name struct{ schema, name string }

func (n name) String() string { return n.schema + "." + n.name }
func (n name) quoted() string { return pgx.Identifier{n.schema, n.name}.Sanitize() }

// written returns the names that a text may stand for: quoted ones for themselves, others cut at any dot, or in schema public.
func written(text string) (names []name) {
	if parts := quotedNames.FindStringSubmatch(text); parts != nil {
		unquoted := func(part string) string { return strings.ReplaceAll(strings.Trim(part, `"`), `""`, `"`) }
		if parts[1] == "" {
			return []name{{"public", unquoted(parts[2])}}
		}
		return []name{{unquoted(parts[1]), unquoted(parts[2])}}
	}
	names = append(names, name{"public", text})
	for i, r := range text {
		if r == '.' {
			names = append(names, name{text[:i], text[i+1:]})
		}
	}
	return names
}

// quotedNames matches one or two identifiers, of which the last is quoted.
var quotedNames = regexp.MustCompile(`^(?:("(?:[^"]|"")+"|[^".]+)\.)?("(?:[^"]|"")+")$`)

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

// plain reports whether a text may be a topic or a type: package outbox has the rule.
func plain(text string) bool {
	return text != "" && len(text) <= 1024 && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl) && strings.Trim(text, " ") == text
}

// mostName is the longest name that PostgreSQL keeps whole, in bytes.
const mostName = 63

// functionOf returns the name of a table's function; a long one is cut and made unique by a sum.
func functionOf(kind Purpose, table name) name {
	function := fmt.Sprintf("postrider_%s_%s", kind, table.name)
	if len(function) > mostName {
		sum := fmt.Sprintf("_%08x", crc32.ChecksumIEEE([]byte(table.name)))
		function = strings.ToValidUTF8(function[:mostName-len(sum)], "") + sum
	}
	return name{table.schema, function}
}

// parameters are those of outbox_append_bytes, in their order: the field of an event, and its type.
var parameters = withTypes(`stream_id text, type text, payload bytea, expected_version bigint, metadata jsonb, topic text, partition_key text,
	dedupe_key text, tenant_id text, publish boolean, available_at timestamptz, event_id uuid, occurred_at timestamptz`)

// withTypes reads a list of names with their types.
func withTypes(list string) (all [][2]string) {
	for one := range strings.SplitSeq(list, ",") {
		all = append(all, [2]string(strings.Fields(one)))
	}
	return all
}

// arguments returns a call's arguments, up to its end: all of them, each with its type, so that no stranger's function of the name fits.
func arguments(parameters [][2]string, fields map[string]string) string {
	given := make([]string, len(parameters))
	for i, p := range parameters {
		given[i] = "\n        (" + cmp.Or(fields[p[0]], "NULL") + ")::" + p[1]
	}
	return strings.Join(given, ",") + ")"
}
