package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// nobody is an address where nothing listens.
const nobody = "127.0.0.1:1"

// planted is a secret that must not be shown.
const planted = "pl4nted"

// call runs a command inside the test.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
	defer cancel()
	var out, err bytes.Buffer
	code = run(ctx, args, &out, &err)
	if ctx.Err() != nil {
		t.Errorf("postrider %s ended with the test's patience only", strings.Join(args, " "))
	}
	return code, out.String(), err.String()
}

// complaint is a command that must fail.
type complaint struct {
	args []string
	code int
	says []string // parts of the text on standard error
}

func (c complaint) check(t *testing.T) {
	t.Helper()
	code, stdout, stderr := call(t, c.args...)
	if code != c.code {
		t.Errorf("status %d, want %d: %s", code, c.code, stderr)
	}
	for _, text := range c.says {
		if !strings.Contains(stderr, text) {
			t.Errorf("it does not say %q: %s", text, stderr)
		}
	}
	if stdout != "" {
		t.Errorf("it wrote to standard output: %s", stdout)
	}
	if strings.Contains(stderr, "panic") || strings.Contains(stderr, "dig.") || strings.Contains(stderr, "fx.") {
		t.Errorf("it shows its inside: %s", stderr)
	}
	wantNoSecret(t, stdout+stderr)
}

func wantNoSecret(t *testing.T, text string) {
	t.Helper()
	if at := strings.Index(text, planted); at >= 0 {
		t.Errorf("a secret is shown: …%s", text[max(0, at-80):at+len(planted)])
	}
}

// onRun is a `run` with a database that need not be there, as wrong settings are refused before.
func onRun(args ...string) []string {
	return append([]string{"run", "--database-url=postgres://u:" + planted + "@" + nobody + "/x", "--http-addr=off"}, args...)
}

func TestWrongSettingsAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]complaint{
		"unknown command":             {[]string{"frobnicate"}, exitRefused, []string{"frobnicate", "--help"}},
		"unknown flag":                {onRun("--frobnicate"), exitRefused, []string{"--frobnicate", "run --help"}},
		"database URL":                {[]string{"run", "--database-url=postgres://u:" + planted + "@h:port/x"}, exitRefused, []string{"--database-url", "port"}},
		"schema with quotes":          {onRun(`--schema=a"b`), exitRefused, []string{"--schema", `a\"b`}},
		"schema with quotes, import":  {[]string{"import", "--database-url=postgres://" + nobody + "/x", `--schema=a"; DROP TABLE x; --`, "nothing"}, exitRefused, []string{"--schema"}},
		"schema with quotes, migrate": {[]string{"migrate", "up", "--database-url=postgres://" + nobody + "/x", `--schema=a"b`}, exitRefused, []string{"--schema"}},
		"schema that is too long":     {onRun("--schema=" + strings.Repeat("s", 64)), exitRefused, []string{"--schema"}},
		"events relation":             {[]string{"migrate", "up", "--database-url=postgres://" + nobody + "/x", `--events-relation=a"b`}, exitRefused, []string{"--events-relation", `a\"b`}},
		"duration without unit":       {onRun("--lease-ttl=10"), exitRefused, []string{"--lease-ttl", `"10"`}},
		"lease too short":             {onRun("--lease-ttl=100ms"), exitRefused, []string{"--lease-ttl", "500ms"}},
		"negative lease":              {onRun("--lease-ttl=-1s"), exitRefused, []string{"--lease-ttl", "-1s"}},
		"interval of nothing":         {onRun("--interval=0s"), exitRefused, []string{"--interval"}},
		"window below a second":       {onRun("--window=1ms"), exitRefused, []string{"--window"}},
		"drain timeout":               {onRun("--drain-timeout=0s"), exitRefused, []string{"--drain-timeout"}},
		"acknowledgement timeout":     {onRun("--ack-timeout=1ms"), exitRefused, []string{"--ack-timeout"}},
		"canary of a shadow":          {onRun("--shadow", "--canary=1m"), exitRefused, []string{"--canary", "--shadow"}},
		"chaos on another's database": {[]string{"dev", "--chaos", "--database-url=postgres://u@" + nobody + "/x"}, exitRefused, []string{"--chaos", "--database-url"}},
		"seed without chaos":          {[]string{"dev", "--seed=3"}, exitRefused, []string{"--seed", "--chaos"}},
		"chaos with hardly an event":  {[]string{"dev", "--chaos", "--rate=0.5"}, exitRefused, []string{"--chaos", "--rate", "at least 4"}},
		"chaos with one worker":       {[]string{"dev", "--chaos", "--workers=1"}, exitRefused, []string{"--workers"}},
		"audit of a shadow":           {onRun("--shadow", "--audit=1m"), exitRefused, []string{"--audit", "--shadow"}},
		"audit too often":             {onRun("--audit=1s"), exitRefused, []string{"--audit", "between 10s and 720h"}},
		"canary once":                 {onRun("--once", "--canary=1m"), exitRefused, []string{"--canary", "--once"}},
		"replicas":                    {onRun("--stream-replicas=2"), exitRefused, []string{"--stream-replicas"}},
		"batch of nothing":            {onRun("--batch-size=0"), exitRefused, []string{"--batch-size"}},
		"negative attempts":           {onRun("--max-attempts=-1"), exitRefused, []string{"--max-attempts"}},
		"partitions":                  {onRun("--partitions=40000"), exitRefused, []string{"--partitions", "40000"}},
		"assignment":                  {onRun("--assignment=random"), exitRefused, []string{"--assignment", "modulo", "sticky"}},
		"subject":                     {onRun("--subject=events.{nonsense}"), exitRefused, []string{"--subject", "nonsense"}},
		"stream of no name":           {onRun("--stream="), exitRefused, []string{"--stream"}},
		"stream of two words":         {onRun("--stream=a b"), exitRefused, []string{"--stream", `"a b"`}},
		"stream of two words, tail":   {[]string{"tail", "--stream=a.b"}, exitRefused, []string{"--stream"}},
		"json and silent":             {onRun("--json", "--silent"), exitRefused, []string{"--json", "--silent"}},
		"user without password":       {onRun("--http-addr=127.0.0.1:0", "--http-users-file="+writeFile(t, "operate password alone\n")), exitRefused, []string{"--http-users-file", "line 1"}},
		"open bind without password":  {onRun("--http-addr=0.0.0.0:0"), exitRefused, []string{"--http-addr"}},
		"workers of dev":              {[]string{"dev", "--workers=0"}, exitRefused, []string{"--workers"}},
		"nodes of dev":                {[]string{"dev", "--nats-nodes=2"}, exitRefused, []string{"--nats-nodes"}},
		"dev without end":             {[]string{"dev", "--exit-when-drained"}, exitRefused, []string{"--exit-when-drained", "--import"}},
		"file of dev":                 {[]string{"dev", "--import=nothing.jsonl"}, exitRefused, []string{"--import", "nothing.jsonl"}},
		"limit of tail":               {[]string{"tail", "--limit=-1"}, exitRefused, []string{"--limit"}},
		"format of the log":           {onRun("--log-format=xml"), exitRefused, []string{"--log-format"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.check(t)
		})
	}
}

func TestUnreachableServers(t *testing.T) {
	t.Parallel()
	database := pgtest.Migrated(t, 8)
	away := "--database-url=postgres://u:" + planted + "@" + nobody + "/x"
	noBroker := "--nats-url=nats://u:" + planted + "@" + nobody
	broker := []string{"--nats-url", nobody}
	for name, c := range map[string]complaint{
		"run, PostgreSQL":                 {[]string{"run", away, "--http-addr=off"}, exitFailed, []string{"--database-url", nobody}},
		"migrate up, PostgreSQL":          {[]string{"migrate", "up", away}, exitFailed, []string{"--database-url", nobody}},
		"status, PostgreSQL":              {[]string{"status", away}, exitFailed, []string{"--database-url", nobody}},
		"import, PostgreSQL":              {[]string{"import", away, "nothing"}, exitFailed, []string{"--database-url", nobody}},
		"run, NATS":                       {[]string{"run", "--database-url=" + database, noBroker, "--http-addr=off"}, exitFailed, []string{"--nats-url", nobody}},
		"tail, NATS":                      {[]string{"tail", noBroker}, exitFailed, []string{"--nats-url", nobody}},
		"tail, NATS with a list":          {[]string{"tail", "--nats-url=nats://" + planted + "@" + nobody + "," + planted + "@" + nobody}, exitFailed, []string{"--nats-url"}},
		"tail, NATS with an odd password": {[]string{"tail", "--nats-url=nats://u:a/" + planted + "@" + nobody}, exitFailed, []string{"--nats-url"}},
		"run, other database":             {append([]string{"run", "--database-url=" + database + "&dbname=nowhere", "--http-addr=off"}, broker...), exitFailed, []string{"--database-url", "nowhere"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.check(t)
		})
	}
}

// withoutJetStream is a server that knows only core NATS.
func withoutJetStream(t *testing.T) string {
	t.Helper()
	instance, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	instance.Start()
	t.Cleanup(func() { instance.Shutdown(); instance.WaitForShutdown() })
	if !instance.ReadyForConnections(clustertest.Patience) {
		t.Fatal("the server is not ready")
	}
	return instance.ClientURL()
}

func TestUnfitServersAreRefused(t *testing.T) {
	t.Parallel()
	empty, database := pgtest.URL(t), pgtest.Migrated(t, 64)
	bare, fit, other := natstest.Start(t, 1), natstest.Start(t, 1), natstest.Start(t, 1)
	fit.Stream(t, 1)
	other.Stream(t, 1, func(c *jetstream.StreamConfig) { c.Subjects = []string{"something.else"} })
	coreOnly := withoutJetStream(t)
	on := func(database, broker string, more ...string) []string {
		return append([]string{"run", "--database-url=" + database, "--nats-url=" + broker, "--http-addr=off", "--once"}, more...)
	}
	for name, c := range map[string]complaint{
		"not migrated":             {on(empty, fit.URL()), exitFailed, []string{"not migrated", "postrider migrate up"}},
		"not migrated, status":     {[]string{"status", "--database-url=" + empty}, exitFailed, []string{"postrider migrate up"}},
		"not migrated, import":     {[]string{"import", "--database-url=" + empty, "nothing"}, exitFailed, []string{"postrider migrate up"}},
		"no such schema":           {on(database, fit.URL(), "--schema=elsewhere"), exitFailed, []string{"elsewhere", "postrider migrate up"}},
		"other partition count":    {on(database, fit.URL(), "--partitions=32"), exitRefused, []string{"--partitions", "64", "32"}},
		"other count at migration": {[]string{"migrate", "up", "--database-url=" + database, "--partitions=32"}, exitRefused, []string{"--partitions", "64", "32"}},
		"JetStream off":            {on(database, coreOnly), exitFailed, []string{"JetStream"}},
		"stream missing":           {on(database, bare.URL()), exitFailed, []string{"EVENTS", "--create-stream"}},
		"other stream missing":     {on(database, fit.URL(), "--stream=OTHER"), exitFailed, []string{"OTHER", "--create-stream"}},
		"stream of other subjects": {on(database, other.URL()), exitFailed, []string{"EVENTS", "something.else", "events.>", "--subject"}},
		"subject not captured":     {on(database, fit.URL(), "--subject=elsewhere.{type}"), exitFailed, []string{"EVENTS", "elsewhere", "--subject"}},
		"tail, stream missing":     {[]string{"tail", "--nats-url=" + bare.URL(), "--limit=1"}, exitFailed, []string{"EVENTS", "--stream"}},
		"file missing":             {[]string{"import", "--database-url=" + database, "nothing.jsonl"}, exitFailed, []string{"nothing.jsonl"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.check(t)
		})
	}
	t.Run("nothing is half done", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.Pool(t, database)
		var workers, leases int
		err := pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM outbox_workers),
			(SELECT count(*) FROM outbox_partitions WHERE lease_owner IS NOT NULL OR lease_epoch > 0)`).Scan(&workers, &leases)
		if err != nil || workers != 0 || leases != 0 {
			t.Errorf("%d workers, %d partitions touched: %v", workers, leases, err)
		}
	})
}

func writeFile(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "postrider.yaml")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestConfigurationFile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		content string
		says    []string
	}{
		"unknown setting": {"lease-ttl: 5s\nleese-ttl: 5s\nhttp-token: " + planted, []string{"configuration file", "leese-ttl"}},
		"bad duration":    {"lease-ttl: 5x\nhttp-token: " + planted, []string{"lease-ttl", "5x"}},
		"no YAML":         {"lease-ttl: [5s\nhttp-token: " + planted, []string{"configuration file", "yaml"}},
		"of a command":    {"dry-run: true", []string{"--dry-run", "command line alone"}},
		"of a command, 2": {"keep: 5", []string{"--keep", "command line alone"}},
		"list of lists":   {"import: [[a]]", []string{"configuration file", "import"}},
		"a list":          {"- " + planted, []string{"configuration file"}},
		"nested":          {"schema: {is: nested}", []string{"configuration file", "schema"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := writeFile(t, c.content)
			complaint{append([]string{"--config=" + file}, onRun()...), exitRefused, c.says}.check(t)
		})
	}
	t.Run("missing", func(t *testing.T) {
		t.Parallel()
		complaint{[]string{"--config=nowhere.yaml", "config", "print"}, exitRefused, []string{"nowhere.yaml"}}.check(t)
	})
}

// Flags win over the environment, the environment over the file, the file over the defaults.
func TestPrecedenceOfSettings(t *testing.T) {
	file := writeFile(t, "schema: from_file\nstream: FILE\nbatch-size: 7\nhttp-environment: 1.10\nforward-header: [a, 2026-01-02]\nlease-ttl:\n")
	t.Setenv("POSTRIDER_SCHEMA", "from_environment")
	t.Setenv("POSTRIDER_STREAM", "ENVIRONMENT")
	code, stdout, stderr := call(t, "--config="+file, "config", "print")
	if code != exitOK {
		t.Fatal(stderr)
	}
	for _, want := range []struct{ name, value, from string }{
		{"schema", "from_environment", "environment"},
		{"stream", "ENVIRONMENT", "environment"},
		{"batch-size", "7", "file"},
		{"in-flight", "4096", "default"},
		{"http-environment", "1.10", "file"},
		{"lease-ttl", "10s", "default"},
	} {
		found := false
		for line := range strings.Lines(stdout) {
			if f := strings.Fields(line); len(f) >= 3 && f[0] == want.name {
				found = f[1] == want.value && f[2] == want.from
			}
		}
		if !found {
			t.Errorf("%s is not %s from %s:\n%s", want.name, want.value, want.from, stdout)
		}
	}
	complaint{
		[]string{"--config=" + file, "run", "--database-url=postgres://" + nobody + "/x", "--http-addr=off", `--schema=from"flag`},
		exitRefused,
		[]string{"from", "flag"},
	}.check(t)
	complaint{
		[]string{"--config=" + file, "status", "--database-url=" + pgtest.URL(t)},
		exitFailed,
		[]string{"from_environment"},
	}.check(t)
}

func TestSecretsAreNotPrinted(t *testing.T) {
	for name, environment := range map[string]map[string]string{
		"database URL":                 {"DATABASE_URL": "postgres://u:" + planted + "@h/x"},
		"database URL, query":          {"DATABASE_URL": "postgres://h/x?user=u&password=" + planted},
		"database URL, key":            {"DATABASE_URL": "postgres://h/x?sslpassword=" + planted},
		"database URL, slash":          {"DATABASE_URL": "postgres://u:a/" + planted + "@h/x"},
		"database URL, at sign":        {"DATABASE_URL": "postgres://u:a@" + planted + "@h/x"},
		"DSN":                          {"DATABASE_URL": "host=h user=u password=" + planted},
		"DSN with spaces":              {"DATABASE_URL": "host=h password = " + planted},
		"DSN with quotes":              {"DATABASE_URL": "host=h password='a " + planted + "'"},
		"DSN, comma":                   {"DATABASE_URL": "host=h password=a," + planted},
		"DSN, ampersand":               {"DATABASE_URL": "host=h password=a&" + planted},
		"DSN, escaped":                 {"DATABASE_URL": `host=h password=a\ ` + planted},
		"database URL, comma":          {"DATABASE_URL": "postgres://u:a," + planted + "@h/x"},
		"database URL, quote":          {"DATABASE_URL": "postgres://u:a'" + planted + "@h/x"},
		"database URL, query, comma":   {"DATABASE_URL": "postgres://h/x?password=a," + planted},
		"NATS token without scheme":    {"NATS_URL": planted + "@h:4222"},
		"NATS URL":                     {"NATS_URL": "nats://u:" + planted + "@h:4222"},
		"NATS URL without scheme":      {"NATS_URL": "u:" + planted + "@h:4222"},
		"NATS token":                   {"NATS_URL": "nats://" + planted + "@h:4222"},
		"NATS list, second bare":       {"NATS_URL": "nats://u:x@h:4222,u:" + planted + "@i:4222"},
		"NATS URL, slash":              {"NATS_URL": "nats://u:a/" + planted + "@h:4222"},
		"monitor's users":              {"POSTRIDER_HTTP_USERS_FILE": writeFile(t, "operate password me "+planted+"\n")},
		"monitor's token":              {"POSTRIDER_HTTP_TOKEN": planted},
		"database password on its own": {"PGPASSWORD": planted},
	} {
		t.Run(name, func(t *testing.T) {
			for variable, value := range environment {
				t.Setenv(variable, value)
			}
			for _, args := range [][]string{{"config", "print"}, {"config", "print", "--json"}, {"version"}} {
				code, stdout, stderr := call(t, args...)
				if code != exitOK {
					t.Errorf("%v ended with %d: %s", args, code, stderr)
				}
				wantNoSecret(t, stdout+stderr)
			}
		})
	}
	t.Run("in a file", func(t *testing.T) {
		file := writeFile(t, "database-url: postgres://u:"+planted+"@h/x\nhttp-token: "+planted+"\nhttp-users-file: "+
			writeFile(t, "operate password me "+planted+"\n")+"\n")
		code, stdout, stderr := call(t, "--config="+file, "config", "print")
		if code != exitOK || !strings.Contains(stdout, "file") {
			t.Errorf("status %d: %s%s", code, stdout, stderr)
		}
		wantNoSecret(t, stdout+stderr)
	})
}

// A command ends soon when it is told to, whatever it waits for.
func TestCancelledRunEnds(t *testing.T) {
	t.Parallel()
	broker := natstest.Start(t, 1)
	broker.Stream(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, err bytes.Buffer
	start := time.Now()
	run(ctx, []string{"run", "--database-url=" + pgtest.Migrated(t, 8), "--nats-url=" + broker.URL(), "--http-addr=off"}, &out, &err)
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}
