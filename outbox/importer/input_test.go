package importer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/postrider/postrider/outbox/importer"
)

func TestBadLinesAreNamed(t *testing.T) {
	t.Parallel()
	good := event(1, "a", 1) + event(2, "a", 2) + event(2, "b", 1)
	field := func(old, replacement string) string {
		return strings.Replace(event(3, "c", 1), old, replacement, 1)
	}
	for _, test := range []struct {
		name, line string
		want       string // in the error
		events     int    // committed: all before the offending transaction
	}{
		{"malformed JSON", `{"tx":3,` + "\n", "malformed JSON", 1},
		{"two values", strings.TrimSpace(event(3, "c", 1)) + "{}\n", "malformed JSON", 1},
		{"not an object", "[]\n", "malformed JSON", 1},
		{"tx missing", field(`"tx":3,`, ``), `"tx"`, 1},
		{"tx not a number", field(`"tx":3`, `"tx":"3"`), `tx`, 1},
		{"stream missing", field(`"stream":"c",`, ``), `"stream"`, 1},
		{"stream empty", field(`"c"`, `""`), `"stream"`, 1},
		{"stream with NUL", field(`"c"`, `"c\u0000"`), `"stream"`, 1},
		{"event_id nil", field(`"stream":"c"`, `"event_id":"00000000-0000-0000-0000-000000000000","stream":"c"`), `"event_id"`, 1},
		{"headers alike", field(`"stream":"c"`, `"metadata":{"headers":{"Foo":"1","fOO":"2"}},"stream":"c"`), `twice`, 3},
		{"version missing", field(`"version":1,`, ``), `"version"`, 1},
		{"version zero", field(`"version":1`, `"version":0`), `"version"`, 1},
		{"type missing", field(`"type":"changed",`, ``), `"type"`, 1},
		{"type empty", field(`"changed"`, `""`), `"type"`, 1},
		{"occurred_at missing", field(`"occurred_at"`, `"happened_at"`), `"occurred_at"`, 1},
		{"occurred_at wrong", field(`2024-04-09T`, `yesterday `), `malformed`, 1},
		{"payload missing", field(`"payload"`, `"body"`), `"payload"`, 1},
		{"stream with a control character", field(`"c"`, `"c\u0007"`), `StreamID`, 3},
		{"stream too long", field(`"c"`, `"`+strings.Repeat("c", 1025)+`"`), `StreamID`, 3},
		{"tx goes back", event(1, "c", 1), "tx goes back from 2 to 1", 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			result, err := b.run(t.Context(), t, []byte(good+test.line+event(9, "z", 1)))
			var at *importer.LineError
			if !errors.Is(err, importer.ErrInput) || !errors.As(err, &at) || at.Line != 4 || at.File != "events.jsonl" {
				t.Fatalf("got %v", err)
			}
			said := fmt.Sprintf("with %d events were committed", test.events)
			for _, want := range []string{"events.jsonl:4:", test.want, said} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q: %v", want, err)
				}
			}
			if n := b.count(t, `SELECT count(*) FROM events`); n != test.events || result.Events != n {
				t.Errorf("%d events in the database, want %d; %+v", n, test.events, result)
			}
		})
	}
}

func TestTruncatedGzip(t *testing.T) {
	t.Parallel()
	b := setup(t)
	whole := read(t, history)
	result, err := b.run(t.Context(), t, whole[:len(whole)/2])
	var at *importer.LineError
	if !errors.Is(err, importer.ErrInput) || !errors.As(err, &at) || !strings.Contains(err.Error(), "truncated") {
		t.Fatalf("got %v", err)
	}
	if result.Events == 0 || result.Events >= at.Line || b.count(t, `SELECT count(*) FROM events`) != result.Events {
		t.Errorf("line %d: %+v", at.Line, result)
	}
	if again := b.mustRun(t, whole); again.Events+result.Events != historyEvents {
		t.Errorf("completed: %+v", again)
	}
}

func TestDamagedGzip(t *testing.T) {
	t.Parallel()
	b := setup(t)
	damaged := bytes.Clone(read(t, history))
	for i := range 64 {
		damaged[len(damaged)/2+i] ^= 0x5a
	}
	_, err := b.run(t.Context(), t, damaged)
	var at *importer.LineError
	if !errors.Is(err, importer.ErrInput) || !errors.As(err, &at) {
		t.Errorf("got %v", err)
	}
	if _, err := b.run(t.Context(), t, []byte{0x1f, 0x8b, 0}); !errors.Is(err, importer.ErrInput) {
		t.Errorf("a header cut short: %v", err)
	}
}

func TestLongLines(t *testing.T) {
	t.Parallel()
	b := setup(t)
	blob := strings.Repeat("x", 3<<20)
	long := strings.Replace(event(2, "b", 1), `{"n":  1, "ü":"\u00fc"}`, `"`+blob+`"`, 1)
	result := b.mustRun(t, []byte(event(1, "a", 1)+long))
	if result.Events != 2 || b.count(t, `SELECT max(octet_length(payload)) FROM events`) != len(blob)+2 {
		t.Errorf("%+v", result)
	}
	tooLong := append([]byte(event(3, "c", 1)), bytes.Repeat([]byte("x"), 64<<20+1)...)
	result, err := b.run(t.Context(), t, tooLong)
	var at *importer.LineError
	if !errors.Is(err, importer.ErrInput) || !errors.As(err, &at) || at.Line != 2 || !strings.Contains(err.Error(), "64 MiB") {
		t.Errorf("got %v", err)
	}
	if result.Events != 0 {
		t.Errorf("%+v", result)
	}
}

// A line whose payload does not fit the schema of its type is named; what came before is committed.
func TestPayloadsOfAFileFitTheirSchemas(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if _, err := b.pool.Exec(t.Context(), `INSERT INTO outbox_types (event_type, json_schema, checked) VALUES ('changed', '{"properties": {"n": {"const": 1}}}', true)`); err != nil {
		t.Fatal(err)
	}
	wrong := strings.Replace(event(2, "c", 1), `"n":  1`, `"n":  2`, 1)
	result, err := b.run(t.Context(), t, []byte(event(1, "a", 1)+event(2, "b", 1)+wrong+event(2, "d", 1)))
	var at *importer.LineError
	if !errors.Is(err, importer.ErrInput) || !errors.As(err, &at) || at.Line != 3 || !strings.Contains(err.Error(), `"/n": const: must be 1`) {
		t.Errorf("got %v", err)
	}
	if n := b.count(t, `SELECT count(*) FROM events`); n != 1 || result.Events != 1 {
		t.Errorf("%d events, %+v", n, result)
	}
}

// A stream must begin at 1 or continue; the offending transaction is undone,
// what came before it stays.
func TestVersionsThatDoNotContinue(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, file string
		line       int
	}{
		{"begins at 7", event(1, "a", 1) + event(2, "b", 1) + event(2, "c", 7), 3},
		{"leaves 2 out", event(1, "a", 1) + event(2, "b", 1) + event(2, "a", 3), 3},
		{"goes back", event(1, "a", 1) + event(2, "c", 2) + event(2, "c", 1), 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			result, err := b.run(t.Context(), t, []byte(test.file))
			var at *importer.LineError
			if !errors.Is(err, importer.ErrVersion) || !errors.As(err, &at) || at.Line != test.line {
				t.Errorf("got %v", err)
			}
			if result.Events != 1 || b.count(t, `SELECT count(*) FROM events`) != 1 {
				t.Errorf("%+v", result)
			}
		})
	}
}

// After a failure the connection goes back to the pool as it was.
func TestConnectionIsLeftAsItWas(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if _, err := b.run(t.Context(), t, []byte(event(1, "c", 7))); err == nil {
		t.Fatal("must fail")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.run(ctx, t, []byte(event(1, "c", 1))); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	for range b.pool.Stat().TotalConns() {
		conn, err := b.pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
		var commits string
		if err := conn.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&commits); err != nil || commits != "on" {
			t.Errorf("synchronous_commit is %q, %v", commits, err)
		}
	}
}

func TestConfigIsRefusedByName(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for field, change := range map[string]func(c *importer.Config){
		"Pool":        func(c *importer.Config) { c.Pool = nil },
		"Producer":    func(c *importer.Config) { c.Producer = nil },
		"Rate":        func(c *importer.Config) { c.Rate = math.Inf(1) },
		"ChunkEvents": func(c *importer.Config) { c.ChunkEvents = -1 },
		"Schema":      func(c *importer.Config) { c.Schema = "a;b" },
	} {
		config := b.config
		change(&config)
		if _, err := importer.New(config); !errors.Is(err, importer.ErrConfig) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: got %v", field, err)
		}
	}
}

// The producer refuses it before anything is sent: the round trip is empty.
func TestFirstTransactionIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.run(t.Context(), t, []byte(event(1, "a", 1)+event(1, strings.Repeat("b", 1025), 1)))
	var at *importer.LineError
	if !errors.As(err, &at) || at.Line != 2 || b.count(t, `SELECT count(*) FROM events`) != 0 {
		t.Errorf("got %v", err)
	}
	if result := b.mustRun(t, []byte(event(1, "a", 1))); result.Events != 1 {
		t.Errorf("%+v", result)
	}
}
