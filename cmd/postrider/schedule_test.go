package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testkit/pgtest"
)

func TestScheduledMessagesAreCancelledAndMoved(t *testing.T) {
	t.Parallel()
	address, on := deadDatabase(t)
	pool := pgtest.Pool(t, address)
	for range 3 {
		if _, err := pool.Exec(t.Context(), `SELECT outbox_append('later', 'thing.done', '{}', available_at => now() + interval '1 hour')`); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"list", "--state=scheduled"}, exitOK, "due 20"},
		{[]string{"cancel", "5"}, exitRefused, "--reason is required"},
		{[]string{"cancel", "1", "--reason=x"}, exitRefused, "1 is dead, not scheduled"},
		{[]string{"cancel", "--reason=x"}, exitRefused, "nothing is selected"},
		{[]string{"cancel", "--all", "--reason=x"}, exitRefused, "this would cancel 3 messages; say --yes"},
		{[]string{"cancel", "5", "--dry-run", "--reason=x"}, exitOK, "would cancel 1 message"},
		{[]string{"cancel", "5", "--reason=x"}, exitOK, "cancelled 1 message"},
		{[]string{"move", "6"}, exitRefused, "--at"},
		{[]string{"move", "6", "--at=soon"}, exitRefused, `--at must be a time`},
		{[]string{"move", "6", "--at=0s"}, exitOK, "moved 1 message"},
		{[]string{"move", "--stream=later", "--at=2999-01-02T03:04:05Z", "--json"}, exitOK, `"action":"move"`},
		{[]string{"list", "--stream=later"}, exitOK, "due 2999-01-0"},
	} {
		code, stdout, stderr := call(t, on(append([]string{"messages"}, c.args...)...)...)
		if code != c.code || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("messages %v: status %d, want %d and %q: %s%s", c.args, code, c.code, c.want, stdout, stderr)
		}
	}
	_, stdout, _ := call(t, on("messages", "list", "--stream=later", "--json")...)
	var list []struct{ State string }
	if err := json.Unmarshal([]byte(stdout), &list); err != nil || len(list) != 3 ||
		list[0].State != "discarded" || list[1].State != "pending" || list[2].State != "scheduled" {
		t.Errorf("%v: %s", err, stdout)
	}
}
