package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/message"
)

func TestInboxCommands(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	on := func(args ...string) []string { return append(args, "--database-url="+address) }
	must := func(args ...string) string {
		t.Helper()
		code, stdout, stderr := call(t, on(args...)...)
		if code != exitOK {
			t.Fatalf("%v: status %d: %s%s", args, code, stdout, stderr)
		}
		return stdout
	}
	code, _, stderr := call(t, on("inbox", "dead", "--consumer=c")...)
	if code != exitFailed || !strings.Contains(stderr, "postrider inbox migrate") {
		t.Errorf("without tables: status %d, %s", code, stderr)
	}
	if got := must("migrate", "up", "--inbox", "--json"); !strings.Contains(strings.ReplaceAll(got, " ", ""), `"inbox_version":1`) {
		t.Errorf("migrate up --inbox prints %s", got)
	}
	must("inbox", "migrate") // again

	box, err := inbox.New(pgtest.Pool(t, address), inbox.Config{Name: "c"})
	if err != nil {
		t.Fatal(err)
	}
	first, second := uuid.New(), uuid.New()
	for _, m := range []message.Message{
		{EventID: first, Stream: "a", Version: 1, Type: "x"}, {EventID: second, Stream: "b", Version: 1, Type: "x"},
	} {
		_, err := box.Process(t.Context(), m, func(context.Context, pgx.Tx, message.Message) ([]byte, error) {
			return nil, inbox.Final(errors.New("of no use"))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var list []inboxRow
	if err := json.Unmarshal([]byte(must("inbox", "dead", "--consumer=c", "--json")), &list); err != nil || len(list) != 2 {
		t.Fatalf("dead are %+v, %v", list, err)
	}
	got := must("inbox", "dead", "--consumer=c", "--stream=a")
	if !strings.Contains(got, first.String()) || strings.Contains(got, second.String()) {
		t.Errorf("the table is %s", got)
	}
	if got := must("inbox", "skip", "--consumer=c", first.String(), "--note=never mind"); !strings.Contains(got, "skipped") {
		t.Errorf("skip prints %s", got)
	}
	if got := must("inbox", "requeue", "--consumer=c", "--all"); got != "1 requeued\n" {
		t.Errorf("requeue prints %s", got)
	}
	for _, args := range [][]string{
		{"inbox", "requeue", "--consumer=c"},
		{"inbox", "requeue", "--consumer=c", "--all", first.String()},
		{"inbox", "dead"},
		{"inbox", "dead", "--consumer=c", "--limit=0x"},
		{"inbox", "dead", "--consumer=c", "--limit=20000"},
		{"inbox", "skip", "--consumer=c", "no", "--note=x"},
		{"inbox", "dead", "--consumer=" + strings.Repeat("n", 200)},
	} {
		if code, _, stderr := call(t, on(args...)...); code != exitRefused {
			t.Errorf("%v: status %d, %s", args, code, stderr)
		}
	}
	if code, stdout, stderr := call(t, on("inbox", "requeue", "--consumer=c", first.String())...); code != exitFailed || !strings.Contains(stderr, "1 of the 1") {
		t.Errorf("requeueing what is not dead: status %d, %s%s", code, stdout, stderr)
	}
	if code, _, stderr := call(t, on("inbox", "skip", "--consumer=c", "--note=x", first.String())...); code != exitFailed {
		t.Errorf("skipping twice: status %d, %s", code, stderr)
	}
}
