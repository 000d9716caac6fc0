package capture_test

import (
	"testing"

	"github.com/postrider/postrider/outbox/capture"
)

// odd are rows that another relay bears, and what their events have instead; stream, type, headers.
var odd = []struct{ stream, kind, topic, headers, at, wantStream, wantType, wantHeaders string }{
	{`'s'`, `'t'`, `'o'`, `'{"a b": "x", "A\u00e9": "y", "": "z", "n": 1, "b": true, "none": null}'`, `'infinity'`, "s", "t", `{"-": "z", "b": "true", "n": "1", "A-": "y", "a-b": "x"}`},
	{
		`'s'`, `'t'`, `'o'`, `'{"l": "one\r\ntwo", "o": {"k": [1]}, "Nats-Msg-Id": "1", "OUTBOX-Event-Id": "2", "a b": "1", "a-b": "2"}'`, `'-infinity'`, "s", "t",
		`{"l": "one two", "o": "{\"k\": [1]}", "a-b": "1", "a-b-2": "2", "X-Nats-Msg-Id": "1", "X-OUTBOX-Event-Id": "2"}`,
	},
	{`NULL`, `NULL`, `NULL`, `'[1]'`, `'294276-12-31Z'`, "public.queue", "public.queue", ""},
	{`''`, `''`, `''`, `'not JSON'`, `'4713-01-01 BC'`, "public.queue", "public.queue", ""},
	{`E' a\tb '`, `E'a\nb'`, `E'\x01'`, `'{"h": "\u0000"}'`, `'9999-12-31 23:59:59.5Z'`, "a b ~", "a b~", ""},
	{`repeat('é', 1000)`, `repeat('t', 1025)`, `repeat('o', 99999)`, `jsonb_build_object(repeat('n', 200), repeat('v', 9))::text`, `NULL`, "ééé", "ttt", ""},
	{`'s'`, `'t'`, `'o'`, `(SELECT jsonb_object_agg(n, repeat('v', 9000))::text FROM generate_series(1, 9) AS n)`, `'0001-01-01 00:00:00Z'`, "s", "t", ""},
	{`'s'`, `'t'`, `'o'`, `'{"FOO": "1", "Foo": "2", "foo-2": "3", "KV-OPERATION": "4"}'`, `NULL`, "s", "t", `{"FOO": "1", "Foo-2": "2", "X-KV-OPERATION": "4"}`},
	{`'s'`, `'t'`, `'o'`, `'null'`, `NULL`, "s", "t", ""},
}

// Whatever an application wrote for another relay it goes on writing: what a message cannot have is made to fit.
func TestOddRowsFailNoWriter(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE queue (id bigserial PRIMARY KEY, stream text, kind text, topic text, headers text, at timestamptz, body text, tenant text, key text)`)
	a := capture.Adoption{Table: "queue", Map: map[string]string{
		"id": "event_id", "stream": "stream_id", "kind": "type", "topic": "topic", "headers": "headers",
		"at": "occurred_at", "body": "payload", "tenant": "tenant_id", "key": "partition_key",
	}}
	l.adopt(t, a)
	for _, row := range odd {
		if _, err := l.Exec(t.Context(), `INSERT INTO queue (stream, kind, topic, headers, at, body, tenant, key) VALUES (`+row.stream+`, `+row.kind+`, `+row.topic+`, `+row.headers+`, `+
			row.at+`, NULL, E' \t', '')`); err != nil {
			t.Errorf("the application's INSERT fails for %s: %v", row.headers, err)
			continue
		}
		const last = ` FROM events ORDER BY sequence DESC LIMIT 1`
		if !one[bool](t, l, `SELECT starts_with(stream_id, $1) AND starts_with(event_type, $2)`+last, row.wantStream, row.wantType) {
			t.Errorf("%s: %s", row.headers, one[string](t, l, `SELECT stream_id || ' ' || event_type`+last))
		}
		if got := one[string](t, l, `SELECT coalesce(metadata ->> 'headers', '')`+last); row.wantHeaders != "" && got != row.wantHeaders {
			t.Errorf("of %s the headers are %s, want %s", row.headers, got, row.wantHeaders)
		}
		if !one[bool](t, l, `SELECT NOT outbox_bad_text(stream_id) AND NOT outbox_bad_text(event_type) AND NOT outbox_bad_text(topic) AND outbox_metadata_problem(metadata) IS NULL
				AND extract(year FROM occurred_at) BETWEEN CASE WHEN $1 = 'NULL' THEN 2020 ELSE 1 END AND 9999 AND starts_with(tenant_id, '~')`+last, row.at) {
			t.Errorf("the event of %s is none", row.headers)
		}
	}
	if !one[bool](t, l, `SELECT count(DISTINCT stream_id) = 4 AND bool_and(metadata ->> 'unfit' IS NOT NULL OR headers.none) FROM events, LATERAL (SELECT metadata -> 'headers' IS NULL AS none) AS headers`) {
		t.Error("streams are mixed up, or what headers were is gone")
	}
	// Rows that wait become the same events, but for those that name no stream: somebody looks at these.
	l.wantImported(t, capture.Adoption{Table: "queue", Map: a.Map, Stream: "public.queue", Type: "public.queue"}, 0)
	_, err := l.Adopt(t.Context(), a, capture.Options{Replace: true})
	wantRefused(t, err, "row 3 ", "--stream", "--where")
	l.run(t, `CREATE TABLE copied (LIKE queue INCLUDING ALL)`, `INSERT INTO copied SELECT * FROM queue`)
	l.wantImported(t, capture.Adoption{Table: "copied", Map: a.Map, Stream: "public.queue", Type: "public.queue"}, int64(len(odd)))
	if n := one[int](t, l, `SELECT count(*) FROM (SELECT stream_id, event_type, topic, metadata - 'adopted' FROM events GROUP BY 1, 2, 3, 4 HAVING count(*) % 2 = 1) AS e`); n != 0 {
		t.Errorf("%d events differ between import and trigger", n)
	}
}

// Keys of a json column are read although others of its values are no text.
func TestAJSONValueThatIsNoText(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE queue (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), n bigserial, body json)`)
	l.adopt(t, capture.Adoption{Table: "queue", Map: map[string]string{"id": "event_id", "body.of": "stream_id", "body.kind": "type", "body": "payload"}})
	l.run(t, `INSERT INTO queue (body) VALUES ('{"of": "s", "kind": "t", "x": "\u0000"}'), ('{"of": "\ud800", "kind": "t"}'), ('{"of": "s", "kind": "t"}'), ('[]'), (NULL)`)
	if n := l.count(t); n != 5 {
		t.Errorf("%d events, want 5", n)
	}
}

// A row that waits and has JSON of which no key can be read is named, and nothing is changed; what only looks so is read.
func TestAWaitingRowWhoseJSONIsNoTextIsNamed(t *testing.T) {
	t.Parallel()
	for _, value := range []string{`\u0000`, `\\\u0000`, `\ud800`, `\uDC00\ud83d`, `\ud83d\ud83d\ude00`} {
		l := newLab(t)
		l.run(t, `CREATE TABLE queue (id text PRIMARY KEY, n bigserial, kind text, body json)`,
			`INSERT INTO queue VALUES ('fine', 1, 't', '{"of": "s", "x": "\\u0000 \\\\ud800 \ud83d\ude00 \u0001 \u00e9"}'), ('none', 2, 't', NULL), ('odd', 3, 't', '{"of": "s", "x": "`+value+`"}')`)
		a := capture.Adoption{Table: "queue", Stream: "none", Map: map[string]string{"id": "event_id", "body.of": "stream_id", "kind": "type", "body": "payload"}}
		_, err := l.Adopt(t.Context(), a, capture.Options{})
		wantRefused(t, err, "row odd ", `\u0000`, "--no-import")
		if n := l.count(t); n != 0 {
			t.Errorf("of %s: %d events, want none", value, n)
		}
		a.Where = map[string]string{"body.of": "s", "kind": "t"}
		_, err = l.Adopt(t.Context(), a, capture.Options{})
		wantRefused(t, err, "row odd ")
		l.run(t, `UPDATE queue SET kind = 'other' WHERE id = 'odd'`)
		l.wantImported(t, a, 1)
		l.run(t, `DELETE FROM queue WHERE id = 'odd'`)
		a.Where = nil
		l.wantImported(t, a, 1)
	}
}
