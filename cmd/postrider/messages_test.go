package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

func TestListMessages(t *testing.T) {
	t.Parallel()
	_, on := deadDatabase(t)
	for _, c := range []struct {
		args []string
		want string // sequences and states
	}{
		{nil, "1 dead, 2 dead, 3 dead, 4 blocked"},
		{[]string{"--newest-first", "--limit=2"}, "4 blocked, 3 dead"},
		{[]string{"--newest-first", "--after=3"}, "2 dead, 1 dead"},
		{[]string{"--after=1", "--limit=2"}, "2 dead, 3 dead"},
		{[]string{"--state=blocked", "--state=published"}, "4 blocked"},
		{[]string{"--stream=b"}, "3 dead"},
		{[]string{"--since=1h", "--until=2999-01-02T03:04:05Z", "--type=thing.done", "--topic=default", "--stream=b"}, "3 dead"},
		{[]string{"--until=1h"}, ""},
	} {
		code, stdout, stderr := call(t, on(append([]string{"messages", "list", "--json"}, c.args...)...)...)
		var list []ops.MessageBody
		if err := json.Unmarshal([]byte(stdout), &list); err != nil || code != exitOK {
			t.Fatalf("%v: status %d, %v: %s%s", c.args, code, err, stdout, stderr)
		}
		var got []string
		for _, m := range list {
			got = append(got, fmt.Sprint(m.Sequence, " ", m.State))
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%v lists %s, want %s", c.args, text, c.want)
		}
	}
	code, stdout, stderr := call(t, on("dead", "list", "--limit=2")...)
	if code != exitOK || strings.Count(stdout, "it is too large") != 2 || !strings.Contains(stderr, "--after 2") {
		t.Errorf("status %d: %s%s", code, stdout, stderr)
	}
	if _, stdout, _ = call(t, on("messages", "list", "--state=skipped", "--json")...); stdout != "[]\n" {
		t.Errorf("an empty list is %q", stdout)
	}
}

func TestShowMessage(t *testing.T) {
	t.Parallel()
	address, on := deadDatabase(t)
	pool := pgtest.Pool(t, address)
	var id string
	if err := pool.QueryRow(t.Context(), `SELECT event_id::text FROM events WHERE sequence = 1`).Scan(&id); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`SELECT outbox_append_bytes('binary', 'thing.done', '\xff00')`,
		`SELECT outbox_append('hostile', 'thing.done', '"red"', metadata => '{"headers": {"x": "y"}}')`,
		`UPDATE events SET payload = E'\\x1b5b33316d726564' WHERE sequence = 6`,
		`UPDATE outbox SET last_error = E'\x1b[31mred' WHERE global_sequence = 1`,
		`UPDATE outbox SET failures = '[{"at": "2026-01-02T03:04:05Z", "worker_id": null, "class": "temporary", "text": "was \u001b[0m late"}]' WHERE global_sequence = 1`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	code, stdout, stderr := call(t, on("messages", "show", id, "--payload")...)
	if code != exitOK {
		t.Fatal(stderr)
	}
	for _, text := range []string{"dead", "thing.done", id, "temporary", `was \x1b[0m late`, `\x1b[31mred`, "2: 2 (dead), 4 (blocked)", "payload:\n{}"} {
		if !strings.Contains(stdout, text) {
			t.Errorf("it does not show %q:\n%s", text, stdout)
		}
	}
	for sequence, want := range map[string]string{
		"4": `"blocked_by":{"global_sequence":1,"state":"dead"}`,
		"5": `"payload_base64":"/wA="`,
		"1": `"failures":[{"at":"2026-01-02T03:04:05Z","worker_id":null,"class":"temporary","text":"was \u001b[0m late"}]`,
		"6": `"metadata":{"headers":{"x":"y"}}`,
	} {
		code, stdout, stderr := call(t, on("messages", "show", sequence, "--json", "--payload")...)
		if code != exitOK || !strings.Contains(stdout, want) {
			t.Errorf("message %s: status %d, %s%s, want %s", sequence, code, stdout, stderr, want)
		}
	}
	for _, sequence := range []string{"1", "6"} {
		if _, stdout, _ := call(t, on("messages", "show", sequence, "--payload")...); strings.Contains(stdout, "\x1b") {
			t.Errorf("message %s steers the terminal: %q", sequence, stdout)
		}
	}
	if _, stdout, _ := call(t, on("messages", "show", "1", "--json")...); strings.Contains(stdout, "payload") {
		t.Errorf("the payload is shown unasked: %s", stdout)
	}
}
