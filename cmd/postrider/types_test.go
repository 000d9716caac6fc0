package main

import (
	"context"
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.yaml.in/yaml/v3"

	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/message"
)

func TestTypesFromTheCommandLine(t *testing.T) {
	t.Parallel()
	database := "--database-url=" + pgtest.Migrated(t, 4)
	schema, loose := "--json-schema="+writeFile(t, `{"required": ["id"]}`), "--json-schema="+writeFile(t, `{"format": "uuid"}`)
	good := func(args ...string) string {
		t.Helper()
		code, out, complaint := call(t, append(args, database)...)
		if code != exitOK {
			t.Fatalf("postrider %s ended with %d: %s", strings.Join(args, " "), code, complaint)
		}
		return out
	}
	if text := good("types", "set", "order.paid", schema, "--check", "--dry-run"); text != "payloads of order.paid must fit the schema; nothing was done\n" {
		t.Errorf("dry run: %s", text)
	}
	if list := good("types", "list", "--json"); list != "[]\n" {
		t.Errorf("after a dry run: %s", list)
	}
	good("types", "set", "order.paid", schema, "--check", "--description=it was\x1b[2J paid", "--reason=asked", "--actor=me")
	if list := good("types", "list"); !strings.Contains(list, "order.paid") || !strings.Contains(list, "true") || strings.Contains(list, "\x1b") {
		t.Errorf("listed: %q", list)
	}
	if text := good("types", "show", "order.paid"); !strings.HasPrefix(text, "order.paid: checked, since ") || !strings.Contains(text, "{\n  \"required\": [\n") || strings.Contains(text, "\x1b") {
		t.Errorf("shown: %q", text)
	}
	var changed struct {
		Type   string `json:"event_type"`
		Before *struct{ Checked bool }
	}
	if err := json.Unmarshal([]byte(good("types", "set", "order.paid", loose, "--no-check", "--json")), &changed); err != nil || changed.Type != "order.paid" || changed.Before == nil || !changed.Before.Checked {
		t.Errorf("changed: %+v, %v", changed, err)
	}
	var shown struct {
		Checked     bool
		Schema      map[string]any `json:"json_schema"`
		Description string
	}
	if err := json.Unmarshal([]byte(good("types", "show", "order.paid", "--json")), &shown); err != nil || shown.Checked || shown.Schema["format"] != "uuid" || !strings.HasSuffix(shown.Description, " paid") {
		t.Errorf("shown: %+v, %v", shown, err)
	}
	good("types", "set", "order.paid", schema, "--check")
	if text := good("types", "set", "order.paid", "--description=paid"); text != "payloads of order.paid must fit the schema\n" {
		t.Errorf("described: %s", text)
	}
	if text := good("types", "set", "order.paid", "--no-check"); text != "payloads of order.paid are not checked any more\n" {
		t.Errorf("set again: %s", text)
	}
	if text := good("types", "drop", "order.paid"); text != "order.paid is registered no more\n" {
		t.Errorf("dropped: %s", text)
	}
	for _, c := range []complaint{
		{[]string{"types", "set", "a"}, exitRefused, []string{"--json-schema"}},
		{[]string{"types", "set", "a", "--json-schema=nowhere.json"}, exitRefused, []string{"--json-schema", "nowhere.json"}},
		{[]string{"types", "set", "a", "--json-schema=" + writeFile(t, "a: 1")}, exitRefused, []string{"--json-schema", "JSON object"}},
		{[]string{"types", "set", "a", "--json-schema=" + writeFile(t, "")}, exitRefused, []string{"--json-schema", "JSON object"}},
		{[]string{"types", "set", "a", loose, "--check"}, exitRefused, []string{"--json-schema", "/format is not checked here", "without --check"}},
		{[]string{"types", "show", "a"}, exitRefused, []string{"TYPE", `"a" has no contract`}},
		{[]string{"types", "drop", "a"}, exitRefused, []string{"TYPE", `"a" has no contract`}},
		{[]string{"asyncapi", "--newest=0"}, exitRefused, []string{"--newest"}},
		{[]string{"asyncapi", "--subject={topic}"}, exitRefused, []string{"--subject"}},
	} {
		c.args = append(c.args, database)
		c.check(t)
	}
}

// described is what the test reads of the document.
type described struct {
	Servers  map[string]struct{ Host string }
	Channels map[string]struct {
		Address    string
		Parameters map[string]struct{ Enum []string }
	}
	Components struct {
		Messages map[string]any
		Schemas  struct {
			Headers struct {
				Required   []string
				Properties map[string]struct{ Pattern string }
			}
		}
	}
}

// What the document says of subjects and headers is what workers publish, with all headers that they can add.
func TestTheAsyncAPIDocumentSaysWhatIsPublished(t *testing.T) {
	t.Parallel()
	address := pgtest.Migrated(t, 4)
	pool, broker := pgtest.Pool(t, address), natstest.Start(t, 1)
	broker.Stream(t, 1)
	database := "--database-url=" + address
	if _, err := pool.Exec(t.Context(), `SELECT outbox_append('order 17', 'order.paid', to_jsonb(repeat('x', 9000)), topic => 'shop', metadata =>
		'{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate": "a=b", "correlation_id": "c", "causation_id": "d",
		  "headers": {"ce-dataschema": "https://example.org/s"}}')`); err != nil {
		t.Fatal(err)
	}
	// Once plainly, and once more with all that a worker can add. What is stored is replayed, whatever its type became since.
	for i, more := range [][]string{nil, {"--headers=full", "--cloudevents", "--cloudevents-source=/shop", "--compress=zstd"}} {
		if i > 0 {
			if code, _, stderr := call(t, "types", "set", "order.paid", "--check", "--json-schema="+writeFile(t, `{"type": "object"}`), database); code != exitOK {
				t.Fatal(stderr)
			}
			if code, _, stderr := call(t, "replay", "--all", "--prepare", database); code != exitOK {
				t.Fatal(stderr)
			}
			if code, _, stderr := call(t, "replay", "resume", "1", "--other-shape", database); code != exitOK {
				t.Fatal(stderr)
			}
		}
		if code, _, stderr := call(t, append([]string{"run", "--once", "--http-addr=off", database, "--nats-url=" + broker.URL()}, more...)...); code != exitOK {
			t.Fatal(stderr)
		}
	}
	told := func(more ...string) string {
		t.Helper()
		code, out, stderr := call(t, append([]string{"asyncapi", database, "--nats-url=nats://u:" + planted + "@" + nobody}, more...)...)
		if wantNoSecret(t, out+stderr); code != exitOK {
			t.Fatal(stderr)
		}
		return out
	}
	var d described
	if err := json.Unmarshal([]byte(told()), &d); err != nil {
		t.Fatal(err)
	}
	var one, other any
	if err := yaml.Unmarshal([]byte(told("--yaml")), &one); err != nil || !strings.HasPrefix(told("--yaml"), `"asyncapi": "3.0.0"`) {
		t.Errorf("as YAML: %.100s, %v", told("--yaml"), err)
	}
	if err := yaml.Unmarshal([]byte(told()), &other); err != nil || !reflect.DeepEqual(one, other) {
		t.Errorf("YAML and JSON differ: %v", err)
	}
	if d.Servers["nats-1"].Host != nobody || d.Components.Messages["order.paid"] == nil {
		t.Errorf("the document says %+v", d)
	}
	subject := strings.Replace(d.Channels["shop"].Address, "{type}", strings.Join(d.Channels["shop"].Parameters["type"].Enum, "|"), 1)
	seen := 0
	for _, m := range storedMessages(t, broker.JetStream(t), subject) {
		seen++
		names := map[string]string{}
		for name := range m.Header {
			names[name] = m.Header.Get(name)
			rule, is := d.Components.Schemas.Headers.Properties[name]
			if !is || !regexp.MustCompile(rule.Pattern).MatchString(names[name]) {
				t.Errorf("%s: %q does not match %q, told %t", name, names[name], rule.Pattern, is)
			}
		}
		for _, name := range d.Components.Schemas.Headers.Required {
			if names[name] == "" {
				t.Errorf("a message lacks %s", name)
			}
		}
		if generation := names[message.HeaderGeneration]; (generation == "") == (names[message.HeaderCEID] != "") {
			t.Errorf("generation %q beside %v", generation, names)
		}
	}
	if seen != 2 {
		t.Errorf("%d messages are at %s", seen, subject)
	}
	if !slices.Contains(d.Components.Schemas.Headers.Required, message.HeaderType) {
		t.Errorf("required are %v", d.Components.Schemas.Headers.Required)
	}
}

// storedMessages are those of a subject.
func storedMessages(t *testing.T, js jetstream.JetStream, subject string) (list []*nats.Msg) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	stream, err := js.Stream(ctx, "EVENTS")
	if err != nil {
		t.Fatal(err)
	}
	for next := uint64(1); ; {
		m, err := stream.GetMsg(ctx, next, jetstream.WithGetMsgSubject(subject))
		if err != nil {
			return list
		}
		list, next = append(list, &nats.Msg{Subject: m.Subject, Header: m.Header}), m.Sequence+1
	}
}
