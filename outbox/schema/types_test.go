package schema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// A producer learns from one call whether the event is new, and of one that is not, which was the first.
func TestAppendOneTellsNewFromDuplicate(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.Migrated(t, 4))
	for _, function := range []string{"outbox_append_one", "outbox_append_one_bytes"} {
		run(t, conn, `TRUNCATE events, outbox_ready, outbox_dedupe_keys RESTART IDENTITY`)
		appends := `SELECT format('%s %s %s', stream_version, duplicate, sequence = 1)
			FROM ` + function + `('s', 't', '{ }', dedupe_key => 'k', metadata => '{"correlation_id": "c"}', topic => 'shop')`
		for _, want := range []string{"1 f t", "1 t t", "1 t t"} {
			if got := one[string](t, conn, appends); got != want {
				t.Errorf("%s answers %s, want %s", function, got, want)
			}
		}
		if got := one[string](t, conn, `SELECT format('%s %s', stream_version, duplicate) FROM `+function+`('s', 't', '[1]')`); got != "2 f" {
			t.Errorf("without a key %s answers %s", function, got)
		}
		want := `shop{}{"correlation_id": "c"} default[1]`
		if function == "outbox_append_one_bytes" {
			want = `shop{ }{"correlation_id": "c"} default[1]`
		}
		if got := one[string](t, conn, `SELECT string_agg(topic || convert_from(payload, 'UTF8') || coalesce(metadata::text, ''), ' ' ORDER BY sequence) FROM events`); got != want {
			t.Errorf("%s stored: %s", function, got)
		}
		refused(t, conn, `SELECT `+function+`('s', 't', '{}', expected_version => 0)`, "OB001")
	}
}

const placed = `{
	"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.org/placed", "title": "placed",
	"type": "object", "required": ["id", "lines"], "additionalProperties": false,
	"properties": {
		"id": {"type": "integer", "minimum": 1},
		"to/from": {"type": "string", "pattern": "^[a-z]+$"},
		"lines": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/line"}}
	},
	"$defs": {"line": {"type": "object", "required": ["price"], "properties": {
		"price": {"type": "number", "maximum": 100.5}, "kind": {"enum": ["a", "b", null]}, "inner": {"$ref": "#/$defs/line"}}}}
}`

func setType(t testing.TB, conn *pgx.Conn, name, text string, checked bool) {
	t.Helper()
	run(t, conn, `INSERT INTO outbox_types (event_type, json_schema, checked) VALUES ($1, $2::text::jsonb, $3)
		ON CONFLICT (event_type) DO UPDATE SET json_schema = excluded.json_schema, checked = excluded.checked`, name, text, checked)
}

// literal is a text as SQL has it.
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// appendsOf are all ways to append a payload of a type, each with the event's place in the call. What is no JSON goes as bytes alone.
func appendsOf(name, payload string) map[string]int {
	bytes := "convert_to(" + literal(payload) + ", 'UTF8')"
	ways := map[string]int{
		fmt.Sprintf(`SELECT outbox_append_bytes('s', '%s', %s)`, name, bytes):                                             1,
		fmt.Sprintf(`SELECT outbox_append_one_bytes('s', '%s', %s)`, name, bytes):                                         1,
		fmt.Sprintf(`SELECT outbox_append_batch('{s}', '{%s}', ARRAY[%s])`, name, bytes):                                  1,
		fmt.Sprintf(`SELECT outbox_append_batch('{s,s,s}', '{free,%[1]s,%[1]s}', ARRAY['x', %[2]s, %[2]s])`, name, bytes): 2,
	}
	if json.Valid([]byte(payload)) {
		ways[fmt.Sprintf(`SELECT outbox_append('s', '%s', %s)`, name, literal(payload))] = 1
		ways[fmt.Sprintf(`SELECT outbox_append_one('s', '%s', %s, publish => false)`, name, literal(payload))] = 1
	}
	return ways
}

// Each way to append refuses a payload that does not fit, writes nothing, and says which type, where and why.
func TestACheckedTypeRefusesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.Migrated(t, 4))
	setType(t, conn, "placed", placed, true)
	setType(t, conn, "told", placed, false)
	for _, c := range []struct{ payload, pointer, rule string }{
		{`{"id": 1}`, "", `required: must have "lines"`},
		{`[]`, "", `type: must be "object"`},
		{`{"id": 1.5, "lines": [{"price": 1}]}`, "/id", `type: must be "integer"`},
		{`{"id": 0, "lines": [{"price": 1}]}`, "/id", `minimum: must be at least 1`},
		{`{"id": 1, "lines": []}`, "/lines", `minItems: must have at least 1 items`},
		{`{"id": 1, "lines": [{"price": 1}, {"price": 101}]}`, "/lines/1/price", `maximum: must be at most 100.5`},
		{`{"id": 1, "lines": [{"price": 1, "kind": "c"}]}`, "/lines/0/kind", `enum: must be one of ["a", "b", null]`},
		{`{"id": 1, "lines": [{"price": 1, "inner": {"price": 1, "inner": {}}}]}`, "/lines/0/inner/inner", `required: must have "price"`},
		{`{"id": 1, "lines": [{"price": 1}], "to/from": "a1"}`, "/to~1from", `pattern: must match ^[a-z]+$`},
		{`{"id": 1, "lines": [{"price": 1}], "m~re/": 1}`, "/m~0re~1", `additionalProperties: may not be there`},
		{`{"id": 1, `, "", "must be JSON that fits jsonb: "},
		{"", "", "must be JSON that fits jsonb: "},
		{`{"id": 1, "lines": [{"price": 1, "more": "\u0000"}]}`, "", "must be JSON that fits jsonb: "},
	} {
		for sql, place := range appendsOf("placed", c.payload) {
			_, err := conn.Exec(t.Context(), sql)
			var answer *pgconn.PgError
			if !errors.As(err, &answer) || answer.Code != "OB002" {
				if errors.As(err, &answer) && strings.Contains(c.payload, `\u0000`) && answer.Code == "22P05" {
					continue // no jsonb, so it gets as far as the argument
				}
				t.Errorf("%s: %v, want OB002", sql, err)
				continue
			}
			var told struct {
				Type, Pointer, Rule string
				Position            int
			}
			if err := json.Unmarshal([]byte(answer.Detail), &told); err != nil {
				t.Fatal(err)
			}
			if told.Type != "placed" || told.Pointer != c.pointer || !strings.HasPrefix(told.Rule, c.rule) || told.Position != place {
				t.Errorf("%s: it tells %+v", sql, told)
			}
			if text := fmt.Sprintf("payload of type 'placed' does not fit its schema at %q: %s", c.pointer, c.rule); !strings.Contains(answer.Message, text) ||
				strings.HasPrefix(answer.Message, "event 2: ") != (place == 2) {
				t.Errorf("%s: it says %s", sql, answer.Message)
			}
		}
	}
	refused(t, conn, `SELECT outbox_append_bytes('bytes', 'placed', '\xff')`, "OB002")
	if n := one[int](t, conn, `SELECT (SELECT count(*) FROM events) + (SELECT count(*) FROM outbox)`); n != 0 {
		t.Errorf("%d rows of refused events are there", n)
	}
	for _, name := range []string{"placed", "told", "unknown"} {
		for sql := range appendsOf(name, `{"id": 1.0, "lines": [{"price": 1e1, "inner": {"price": 0, "more": {}}}], "to/from": "b"}`) {
			run(t, conn, sql)
		}
	}
	for sql := range appendsOf("told", `[]`) {
		run(t, conn, sql)
	}
}

// Whether a type is checked holds from the commit on, also in sessions that have appended before.
func TestATypeIsCheckedFromTheCommitOn(t *testing.T) {
	t.Parallel()
	url := pgtest.Migrated(t, 4)
	conn, producer := connect(t, url), connect(t, url)
	wants := func(code string) {
		t.Helper()
		for sql := range appendsOf("counted", `"x"`) {
			if code == "" {
				run(t, producer, sql)
			} else {
				refused(t, producer, sql, code)
			}
		}
	}
	wants("")
	setType(t, conn, "counted", `{"type": "number"}`, true)
	wants("OB002")
	run(t, producer, `BEGIN`)
	const number = `SELECT outbox_append('s', 'counted', '1')`
	run(t, producer, number)
	setType(t, conn, "counted", `{"type": "string"}`, true)
	refused(t, producer, number, "OB002")
	run(t, producer, `ROLLBACK`)
	wants("")
	setType(t, conn, "counted", `{"type": "number"}`, false)
	wants("")
	setType(t, conn, "counted", `{"type": "number"}`, true)
	run(t, conn, `DELETE FROM outbox_types`)
	wants("")
}

// What cannot be decided is refused, and does not end the server.
func TestADeepPayloadIsRefused(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.Migrated(t, 4))
	setType(t, conn, "deep", `{"$ref": "#/$defs/list", "$defs": {"list": {"type": "array", "items": {"$ref": "#/$defs/list"}}}}`, true)
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	run(t, conn, `SELECT outbox_append('s', 'deep', `+literal(deep(50))+`)`)
	_, err := conn.Exec(t.Context(), `SELECT outbox_append_bytes('s', 'deep', $1)`, []byte(deep(5000)))
	var answer *pgconn.PgError
	if !errors.As(err, &answer) || answer.Code != "OB002" || !strings.Contains(answer.Message, "64 levels") {
		t.Errorf("it says %v", err)
	}
}

// unchecked are schemas with what is refused of them.
var unchecked = map[string]string{
	`[]`:                              "the schema must be an object",
	`true`:                            "the schema must be an object",
	`{"format": "uuid"}`:              "/format is not checked here",
	`{"a/b~": 1}`:                     "/a~1b~0 is not checked here",
	`{"oneOf": [{}]}`:                 "/oneOf is not checked here",
	`{"properties": {"a": {"x": 1}}}`: "/properties/a/x is not checked here",
	`{"items": {"items": {"uniqueItems": true}}}`:            "/items/items/uniqueItems is not",
	`{"additionalProperties": {"minProperties": 1}}`:         "/additionalProperties/minProperties is not",
	`{"$defs": {"a": {"x": 1}}}`:                             "/$defs/a/x is not checked here",
	`{"$defs": {"a b": {}}}`:                                 "/$defs may have names",
	`{"$defs": []}`:                                          "/$defs must be an object",
	`{"properties": {"a": {"$defs": {}}}}`:                   "/properties/a/$defs may stand at the root alone",
	`{"items": {"$id": "x"}}`:                                "/items/$id may stand at the root alone",
	`{"$id": "x#y"}`:                                         "/$id must be a URI without fragment",
	`{"$schema": "http://json-schema.org/draft-07/schema#"}`: "/$schema must be that of 2020-12",
	`{"$schema": null}`:                                      "/$schema must be that of 2020-12",
	`{"$ref": "#/$defs/a"}`:                                  "/$ref must be #/$defs/",
	`{"$ref": "#"}`:                                          "/$ref must be #/$defs/",
	`{"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b", "items": {"$ref": "#/$defs/a"}}, "b": {"items": {"$ref": "#/$defs/a"}}}}`: "/$defs/a/$ref may not stand beside",
	`{"$ref": "other.json"}`: "/$ref must be #/$defs/",
	`{"$ref": 1}`:            "/$ref must be #/$defs/",
	`{"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}`: "is a reference to itself",
	`{"$defs": {"a": {"$ref": "#/$defs/a", "type": "null"}}}`:             "/$defs/a is a reference to itself",
	`{"type": "text"}`:                 "/type must be types of JSON Schema, each once",
	`{"type": ["null", "null"]}`:       "/type must be types of JSON Schema, each once",
	`{"type": [null]}`:                 "/type must be types of JSON Schema, each once",
	`{"type": []}`:                     "/type must be an array",
	`{"type": null}`:                   "/type must be an array",
	`{"required": "a"}`:                "/required must be an array",
	`{"required": [1]}`:                "/required must be strings, each once",
	`{"required": ["a", "a"]}`:         "/required must be strings, each once",
	`{"properties": [], "title": "a"}`: "/properties must be an object",
	`{"properties": {"a": 1}}`:         "/properties/a must be a schema",
	`{"items": [{}]}`:                  "/items must be a schema",
	`{"additionalProperties": null}`:   "/additionalProperties must be a schema",
	`{"enum": []}`:                     "/enum must be an array",
	`{"enum": {}}`:                     "/enum must be an array",
	`{"minLength": -1}`:                "/minLength must be a whole number",
	`{"maxLength": 1.5}`:               "/maxLength must be a whole number",
	`{"minItems": "1"}`:                "/minItems must be a whole number",
	`{"maxItems": null}`:               "/maxItems must be a whole number",
	`{"minimum": "1"}`:                 "/minimum must be a number",
	`{"maximum": [1]}`:                 "/maximum must be a number",
	`{"title": 1}`:                     "/title must be a string",
	`{"deprecated": "yes"}`:            "/deprecated must be true or false",
	`{"examples": 1}`:                  "/examples must be an array",
	`{"pattern": 1}`:                   "/pattern must be a string",
	`{"pattern": "(a"}`:                "/pattern invalid regular expression",
	`{"pattern": "a{300}"}`:            "/pattern invalid regular expression",
	`{"pattern": "a**"}`:               "/pattern invalid regular expression",
	`{"pattern": "(a)\\1"}`:            "/pattern has more than is read alike",
	`{"pattern": "(?=a)"}`:             "/pattern has more than is read alike",
	`{"pattern": "(?i)a"}`:             "/pattern has more than is read alike",
	`{"pattern": "***=a"}`:             "/pattern has more than is read alike",
	`{"pattern": "\\bword\\b"}`:        "/pattern has more than is read alike",
	`{"pattern": "[[:alpha:]]"}`:       "/pattern has more than is read alike",
	`{"pattern": "[]a]"}`:              "/pattern has more than is read alike",
	`{"pattern": "\\s"}`:               "/pattern has more than is read alike",
	`{"pattern": "\\p{L}"}`:            "/pattern has more than is read alike",
	`{"pattern": "\\x41"}`:             "/pattern has more than is read alike",
	`{"pattern": "a{,2}"}`:             "/pattern has more than is read alike",
}

// A schema of which some word would go unchecked is refused, whoever writes it, and says where the word is.
func TestSchemasThatCannotBeCheckedAreRefused(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.Migrated(t, 4))
	for text, says := range unchecked {
		if got := one[*string](t, conn, `SELECT outbox_schema_problem($1::text::jsonb)`, text); got == nil || !strings.HasPrefix(*got, says) && !strings.HasSuffix(*got, says) {
			t.Errorf("%s: it says %v, want %s", text, got, says)
		}
		insert := `INSERT INTO outbox_types (event_type, json_schema, checked) VALUES ('t', ` + literal(text) + `, `
		refused(t, conn, insert+`true)`, "23514")
		if strings.HasPrefix(text, "{") { // as a description it may be any
			run(t, conn, insert+`false)`)
			refused(t, conn, `UPDATE outbox_types SET checked = true`, "23514")
			run(t, conn, `DELETE FROM outbox_types`)
		}
	}
	for _, text := range []string{
		placed, `{}`, `{"const": null, "default": {"$ref": 1}, "examples": [1], "$comment": "", "readOnly": true}`,
		`{"properties": {"$ref": true, "format": false}, "enum": [[1], {"$ref": "x"}]}`,
		`{"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"properties": {"c": {"$ref": "#/$defs/a"}}}}, "$ref": "#/$defs/a"}`,
		`{"pattern": "^(?:[A-Z]{2,3}|[^a-z\\-\\]_]+?|x\\.y|\\d*\\W)$", "minLength": 2.0}`,
	} {
		if got := one[*string](t, conn, `SELECT outbox_schema_problem($1::text::jsonb)`, text); got != nil {
			t.Errorf("%s is refused: %s", text, *got)
		}
		setType(t, conn, "t", text, true)
	}
}
