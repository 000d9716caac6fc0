package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery/ops/replay"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// replays is a database whose 20 events of two streams were published.
func replays(t *testing.T) (address string) {
	t.Helper()
	address = pgtest.Migrated(t, 2)
	_, err := pgtest.Pool(t, address).Exec(t.Context(), `SELECT outbox_append('s-' || n % 2, 't', '{}') FROM generate_series(1, 20) AS n; DELETE FROM outbox`)
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// What is wrong is refused by the flag's name, and no replay is made.
func TestReplayRefusesWrongInput(t *testing.T) {
	t.Parallel()
	address, broker := replays(t), natstest.Start(t, 1)
	shadow := []string{"--all", "--yes", "--nats-url=" + broker.URL(), "--shadow-stream=NOWHERE"}
	for name, c := range map[string]struct { //nolint:paralleltest // what they leave together is looked at
		args []string
		says []string
	}{
		"nothing":           {nil, []string{"nothing is selected", "--stream", "--all alone"}},
		"all and more":      {[]string{"--all", "--stream=s-1"}, []string{"--all besides conditions"}},
		"no yes":            {[]string{"--all"}, []string{"20 events", "--yes"}},
		"other count":       {[]string{"--all", "--yes", "--expect=3"}, []string{"--expect", "20 are selected, not 3"}},
		"since":             {[]string{"--since=yesterday"}, []string{"--since", `"yesterday"`, "2026-01-02T03:04:05Z"}},
		"no such day":       {[]string{"--since=2026-02-30T00:00:00Z"}, []string{"--since", "2026-02-30"}},
		"in the future":     {[]string{"--since=-10m"}, []string{"--since", "-10m"}},
		"until":             {[]string{"--until=12:00"}, []string{"--until", "12:00"}},
		"times exchanged":   {[]string{"--since=2026-01-03T00:00:00Z", "--until=2026-01-02T00:00:00Z"}, []string{"--until", "must lie after"}},
		"unknown stream":    {[]string{"--stream=nobody's"}, []string{"--stream", "nobody's"}},
		"empty stream":      {[]string{"--stream="}, []string{"--stream must not be empty"}},
		"sequence":          {[]string{"--sequence=0"}, []string{"--sequence must be at least 1"}},
		"both sequences":    {[]string{"--sequence=1", "--to-sequence=3"}, []string{"--to-sequence", "excludes --sequence"}},
		"exchanged":         {[]string{"--from-sequence=5", "--to-sequence=4"}, []string{"--to-sequence", "at least 5"}},
		"rate":              {[]string{"--all", "--yes", "--rate=-1"}, []string{"--rate", "0.1", "-1"}},
		"no number":         {[]string{"--all", "--yes", "--rate=NaN"}, []string{"--rate", "NaN"}},
		"as good as none":   {[]string{"--all", "--yes", "--rate=1e-12"}, []string{"--rate", "0.1"}},
		"batch":             {[]string{"--all", "--yes", "--batch-size=0"}, []string{"--batch-size"}},
		"pending":           {[]string{"--all", "--yes", "--max-pending=0"}, []string{"--max-pending"}},
		"actor":             {[]string{"--all", "--yes", "--actor=" + strings.Repeat("a", 201)}, []string{"--actor", "200 characters"}},
		"retry to a shadow": {append(shadow, "--kind=retry"), []string{"--shadow-prefix", "live subjects alone"}},
		"no shadow stream":  {[]string{"--all", "--yes", "--shadow-prefix=a"}, []string{"--shadow-stream is required"}},
		"wildcards":         {append(shadow, "--shadow-prefix=a.>"), []string{"--shadow-prefix", `"a.>"`}},
		"a line break":      {append(shadow, "--shadow-prefix=a\r\nPUB b 0\r\n"), []string{"--shadow-prefix"}},
		"an API":            {append(shadow, "--shadow-prefix=$JS.API"), []string{"--shadow-prefix"}},
		"live subjects":     {append(shadow, "--shadow-prefix=events.x"), []string{"--shadow-prefix must not begin with events"}},
		"fence":             {append(shadow, "--shadow-prefix=outbox.fence"), []string{"--shadow-prefix must not begin with outbox"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := call(t, append([]string{"replay", "--database-url=" + address}, c.args...)...)
			for _, text := range c.says {
				if !strings.Contains(stderr, text) {
					t.Errorf("it does not say %q: %s", text, stderr)
				}
			}
			if code == exitOK || stdout != "" || strings.Contains(stderr, "SQLSTATE") {
				t.Errorf("status %d: %s%s", code, stdout, stderr)
			}
		})
	}
	if _, list, _ := call(t, "replay", "list", "--database-url="+address); strings.Count(list, "all") != 1 || !strings.Contains(list, "cancelled") {
		t.Errorf("more replays were made than the one that is cancelled: %s", list)
	}
}

// A stream that is not there, tables that are not there, and numbers that nobody
// gave out.
func TestReplayNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	address, broker := replays(t), natstest.Start(t, 1)
	old := replays(t)
	if _, err := pgtest.Pool(t, old).Exec(t.Context(), `DELETE FROM outbox_schema_version WHERE version_id >= 4`); err != nil {
		t.Fatal(err)
	}
	for _, c := range []complaint{
		{[]string{"replay", "--all", "--yes", "--shadow-stream=NOWHERE", "--nats-url=" + broker.URL(), "--database-url=" + address}, exitFailed, []string{"--shadow-stream", "NOWHERE", "with the subject replay.*.>\n"}},
		{[]string{"replay", "resume", "77", "--database-url=" + address}, exitRefused, []string{"no such replay: 77"}},
		{[]string{"replay", "cancel", "77", "--database-url=" + address}, exitRefused, []string{"no such replay: 77"}},
		{[]string{"replay", "cancel", "x", "--database-url=" + address}, exitRefused, []string{"<id>"}},
		{[]string{"replay", "resume", "--database-url=" + address}, exitRefused, []string{"<id>"}},
		{[]string{"replay", "resume", "1", "--rate=-2", "--database-url=" + address}, exitRefused, []string{"--rate"}},
		{[]string{"replay", "list", "--limit=0", "--database-url=" + address}, exitRefused, []string{"--limit"}},
		{[]string{"replay", "--all", "--dry-run", "--database-url=" + pgtest.URL(t)}, exitFailed, []string{"postrider migrate up"}},
		{[]string{"replay", "--all", "--dry-run", "--database-url=" + old}, exitFailed, []string{"postrider migrate up"}},
		{[]string{"gaps", "detect", "--no-broker", "--database-url=" + pgtest.URL(t)}, exitFailed, []string{"postrider migrate up"}},
		{[]string{"gaps", "detect", "--kind=x", "--no-broker", "--database-url=" + address}, exitRefused, []string{"--kind", "never-enqueued"}},
		{[]string{"gaps", "detect", "--stream=", "--no-broker", "--database-url=" + address}, exitRefused, []string{"--stream must not be empty"}},
		{[]string{"gaps", "detect", "--nats-url=" + nobody, "--database-url=" + address}, exitFailed, []string{"--no-broker"}},
		{[]string{"gaps", "repair", "--nats-url=" + broker.URL(), "--database-url=" + address}, exitRefused, []string{"--reason"}},
	} {
		c.check(t)
	}
	if _, list, _ := call(t, "replay", "list", "--database-url="+address); strings.Contains(list, "planned") {
		t.Errorf("a replay was made for a stream that is not there: %s", list)
	}
}

// A planned replay is listed, begun, and cannot be begun or cancelled again.
func TestAPlannedReplayIsListedAndBegun(t *testing.T) {
	t.Parallel()
	address := replays(t)
	on := func(args ...string) (int, string, string) { return call(t, append(args, "--database-url="+address)...) }
	var made replay.Body
	code, stdout, stderr := on("replay", "--stream=s-1", "--yes", "--prepare", "--reason=test", "--json")
	if err := json.Unmarshal([]byte(stdout), &made); err != nil || code != exitOK || made.State != "planned" || *made.Selected != 10 {
		t.Fatalf("status %d: %s%s", code, stdout, stderr)
	}
	if _, stdout, _ = on("replay", "list"); !strings.Contains(stdout, "planned") || !strings.Contains(stdout, "0 of 10") || !strings.Contains(stdout, "stream s-1") {
		t.Errorf("the list is %s", stdout)
	}
	id := fmt.Sprint(made.ID)
	if code, stdout, stderr = on("replay", "resume", id, "--rate=0"); code != exitOK || !strings.Contains(stdout, "queued 10 events again under generation 100") {
		t.Errorf("status %d: %s%s", code, stdout, stderr)
	}
	for _, again := range []string{"resume", "cancel"} {
		if code, _, stderr = on("replay", again, id); code != exitRefused || !strings.Contains(stderr, "replay "+id+" is done") {
			t.Errorf("%s: status %d: %s", again, code, stderr)
		}
	}
	if code, stdout, _ = on("replay", "--kind=retry", "--all", "--yes"); code != exitOK || !strings.Contains(stdout, "0 messages begin anew") {
		t.Errorf("a retry of nothing: status %d: %s", code, stdout)
	}
}

// The help's example of a shadow, as an operator types it.
func TestAShadowReplayByCommand(t *testing.T) {
	t.Parallel()
	address, broker := replays(t), natstest.Start(t, 1)
	js := broker.JetStream(t)
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "REPLAYS", Subjects: []string{"replay.>"}})
	if err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := call(t, "replay", "--all", "--shadow-prefix=replay.{id}", "--shadow-stream=REPLAYS", "--yes",
		"--database-url="+address, "--nats-url="+broker.URL())
	if code != exitOK || !strings.Contains(stdout, "published 20 events to replay.1.>") {
		t.Errorf("status %d: %s%s", code, stdout, stderr)
	}
	if info, err := stream.Info(t.Context()); err != nil || info.State.Msgs != 20 {
		t.Errorf("the stream holds %+v, %v", info, err)
	}
}
