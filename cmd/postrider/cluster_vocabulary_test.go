package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// flowing are fields whose values change from one look to the next.
var flowing = []string{
	"at", "heartbeat_until", "heartbeat_left_seconds", "heartbeat_age_seconds", "lease_until", "lease_left_seconds",
	"published_per_second", "oldest_pending_age_seconds",
}

// unlike names where two JSON values differ in names or values.
func unlike(path string, command, served any) (differences []string) {
	switch c := command.(type) {
	case map[string]any:
		s, ok := served.(map[string]any)
		if !ok {
			return []string{path + " is no object in the API"}
		}
		names := maps.Clone(c)
		maps.Copy(names, s)
		for name := range names {
			_, here := c[name]
			_, there := s[name]
			switch {
			case !here || !there:
				differences = append(differences, fmt.Sprintf("%s.%s: command %t, API %t", path, name, here, there))
			case !slices.Contains(flowing, name):
				differences = append(differences, unlike(path+"."+name, c[name], s[name])...)
			}
		}
	case []any:
		s, ok := served.([]any)
		if !ok || len(c) != len(s) {
			return []string{fmt.Sprintf("%s: %v, in the API %v", path, command, served)}
		}
		for i := range c {
			differences = append(differences, unlike(fmt.Sprintf("%s[%d]", path, i), c[i], s[i])...)
		}
	default:
		if !reflect.DeepEqual(command, served) {
			return []string{fmt.Sprintf("%s: %v, in the API %v", path, command, served)}
		}
	}
	return differences
}

// Commands and API call the same things by the same names, and say the same about them.
func TestCommandsAndAPISpeakOneLanguage(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	c := clustertest.New(t, clustertest.Config{Partitions: 4})
	w := c.Start(t, 1)[0]
	dead := appendEvent(t, c, "poison", tooLarge)
	appendEvent(t, c, "poison", 1)
	sent := appendEvent(t, c, "fine", 1)
	c.WaitCount(t, 1, `SELECT count(*) FROM outbox_messages WHERE state = 'dead'`)
	c.WaitCount(t, 1, `SELECT count(*) FROM outbox_messages WHERE state = 'blocked'`)
	c.WaitCount(t, 1, `SELECT count(*) FROM outbox_messages WHERE state = 'published'`)
	command := func(args ...string) any {
		t.Helper()
		code, stdout, stderr := call(t, append(args, "--json", "--database-url="+c.DatabaseURL)...)
		if code != exitOK {
			t.Fatalf("%v: %s", args, stderr)
		}
		return read[any](t, stdout)
	}
	command("partitions", "pause", "3", "--reason=test")
	command("dead", "requeue", fmt.Sprint(dead), "--reason=again")
	c.WaitCount(t, 1, `SELECT count(*) FROM outbox_messages WHERE state = 'dead'`)
	c.WaitCount(t, 1, `SELECT count(*) FROM outbox_messages WHERE state = 'blocked'`)
	m := &clustertest.Worker{Process: clustertest.Launch(t, "monitor", c.Environment(), "monitor", "--http-addr=127.0.0.1:0", "--http-show-payload")}
	served := func(method, path, body string, into string, without ...string) any {
		t.Helper()
		status, text := ask(t, m, method, "/api/v1"+path, body)
		if status != http.StatusOK {
			t.Fatalf("%s: %d, %s", path, status, text)
		}
		object := read[map[string]any](t, text)
		for _, name := range without {
			delete(object, name)
		}
		if into != "" {
			return object[into]
		}
		return object
	}
	get := func(path, into string, without ...string) any {
		return served(http.MethodGet, path, "", into, without...)
	}
	less := func(value any, without ...string) any {
		for _, name := range without {
			delete(value.(map[string]any), name) //nolint:errcheck // an object
		}
		return value
	}
	show := func(n int64) []any {
		return []any{command("messages", "show", fmt.Sprint(n)), get(fmt.Sprintf("/messages/%d", n), "", "metadata_hidden")}
	}
	for what, pair := range map[string][]any{
		"status": {
			less(command("status"), "schema", "schema_version"), get("/summary", "", "version", "age_seconds", "counts_age_seconds"),
		},
		"workers":         {command("workers"), get("/workers", "workers")},
		"partitions list": {command("partitions", "list"), get("/partitions", "partitions")},
		"history":         {command("partitions", "history"), get("/ownership", "changes")},
		"messages list":   {command("messages", "list"), get("/messages", "messages")},
		"dead list":       {command("dead", "list"), get("/messages?state=dead", "messages")},
		"messages show":   show(dead), "a sent message": show(sent),
		"requeue": {
			command("dead", "requeue", fmt.Sprint(dead), "--dry-run"),
			served(http.MethodPost, "/messages/requeue", fmt.Sprintf(`{"sequences": [%d], "dry_run": true}`, dead), ""),
		},
		"pause": {
			command("partitions", "pause", "--all", "--dry-run"), served(http.MethodPost, "/partitions/pause", `{"all": true, "dry_run": true}`, ""),
		},
		"drain": {
			command("workers", "drain", w.ID.String(), "--dry-run"),
			served(http.MethodPost, "/workers/"+w.ID.String()+"/drain", `{"dry_run": true}`, ""),
		},
	} {
		if text, _ := json.Marshal(pair[0]); len(text) < 20 {
			t.Errorf("%s: there is nothing to compare: %s", what, text)
		}
		if differences := unlike(what, pair[0], pair[1]); len(differences) > 0 {
			t.Errorf("commands and API differ:\n  %s", strings.Join(differences, "\n  "))
		}
	}
}
