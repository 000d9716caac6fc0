package recipes_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/outbox"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// conflict is the SQLSTATE of an event whose stream has another version than expected.
const conflict = "OB001"

// event is a line of events.jsonl.
type event struct {
	Stream, Type, Payload, Topic, Key, Message string
	Expected                                   *int64
}

// What each recipe appends is what Go appends, to the byte, and so is the answer; what it rolls back was never there.
func TestRecipesAppendWhatGoAppends(t *testing.T) {
	t.Parallel()
	lines := strings.SplitAfter(strings.TrimSpace(read(t, "events.jsonl")), "\n")
	events := make([]event, len(lines))
	withMessage := ""
	for i, line := range lines {
		if err := json.Unmarshal([]byte(line), &events[i]); err != nil {
			t.Fatal(err)
		}
		if e := events[i]; e.Message != "" && e.Expected == nil {
			withMessage = line
		}
	}
	reference := pgtest.Pool(t, pgtest.Migrated(t, 64))
	answers, rows := appendInGo(t, reference, events), stored(t, reference)
	states := map[string]string{}
	for i, e := range events {
		if answers[i] != conflict {
			states[e.Stream] = e.Type
		}
	}
	for _, r := range recipes {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			command := r.command(t, r.file)
			t.Run("commit", func(t *testing.T) {
				t.Parallel()
				address, pool := database(t)
				output, err := run(t, address, strings.Join(lines, ""), command)
				if err != nil {
					t.Fatalf("%v\n%s", err, output)
				}
				compare(t, "answer", said(t, output), answers)
				compare(t, "event", stored(t, pool), rows)
				if got := statesOf(t, pool); !maps.Equal(got, states) {
					t.Errorf("its own table holds %v, want %v", got, states)
				}
			})
			t.Run("rollback", func(t *testing.T) {
				t.Parallel()
				address, pool := database(t)
				output, err := run(t, address, withMessage, append(slices.Clone(command), "rollback"))
				if err == nil || !strings.Contains(output, "asked to roll back") {
					t.Fatalf("%v\n%s", err, output)
				}
				leavesNothing(t, pool)
			})
		})
	}
}

// database returns one that is migrated and has the recipes' own table.
func database(t *testing.T) (string, *pgxpool.Pool) {
	t.Helper()
	address := pgtest.Migrated(t, 64)
	pool := pgtest.Pool(t, address)
	if _, err := pool.Exec(t.Context(), read(t, "state.sql")); err != nil {
		t.Fatal(err)
	}
	return address, pool
}

// appendInGo appends each event in a transaction of its own, and returns what the recipes have to print.
func appendInGo(t *testing.T, pool *pgxpool.Pool, events []event) []string {
	t.Helper()
	producer, err := outbox.New(outbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var answers []string
	for _, e := range events {
		asked := outbox.Event{
			StreamID: e.Stream, Type: e.Type, Payload: []byte(e.Payload), Topic: e.Topic, PartitionKey: e.Key, DedupeKey: e.Message,
		}
		if e.Expected != nil {
			asked.ExpectedVersion = outbox.ExactVersion(*e.Expected)
		}
		var appended []outbox.Appended
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) (err error) {
			appended, err = producer.AppendTx(t.Context(), tx, asked)
			return err
		})
		if errors.Is(err, outbox.ErrVersionConflict) {
			answers = append(answers, conflict)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		answer := strconv.FormatInt(appended[0].Sequence, 10)
		if e.Message != "" && appended[0].Duplicate {
			answer += " - true"
		} else if e.Message != "" {
			answer += fmt.Sprintf(" %d false", appended[0].Partition)
		}
		answers = append(answers, answer)
	}
	return answers
}

// said reads what a recipe printed; each language has its own words for true, false and the partition of a duplicate.
func said(t *testing.T, output string) (answers []string) {
	t.Helper()
	for line := range strings.Lines(output) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), " ")
		if len(fields) == 3 {
			duplicate, err := strconv.ParseBool(fields[2])
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			if fields[2] = strconv.FormatBool(duplicate); duplicate {
				fields[1] = "-"
			}
		}
		answers = append(answers, strings.Join(fields, " "))
	}
	return answers
}

// stored are the events and where they are queued, one text each.
func stored(t *testing.T, pool *pgxpool.Pool) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), `
		SELECT format('%s: stream %L version %s type %L topic %L key %L partition %s message %L payload %s', e.sequence, e.stream_id,
		              e.stream_version, e.event_type, e.topic, e.routing_key, r.partition_key, d.dedupe_key, encode(e.payload, 'escape'))
		  FROM events AS e
		  LEFT JOIN outbox_ready AS r ON r.global_sequence = e.sequence
		  LEFT JOIN outbox_dedupe_keys AS d ON d.global_sequence = e.sequence
		 ORDER BY e.sequence`)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

func statesOf(t *testing.T, pool *pgxpool.Pool) map[string]string {
	t.Helper()
	states := map[string]string{}
	rows, err := pool.Query(t.Context(), `SELECT name, status FROM recipe_orders`)
	if err != nil {
		t.Fatal(err)
	}
	var name, status string
	_, err = pgx.ForEachRow(rows, []any{&name, &status}, func() error {
		states[name] = status
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return states
}

// leavesNothing also wants a sequence to be drawn: else nothing was appended that could be rolled back.
func leavesNothing(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	var drawn *int64
	var left int
	err := pool.QueryRow(t.Context(), `SELECT pg_sequence_last_value(pg_get_serial_sequence('events', 'sequence')::regclass),
		(SELECT count(*) FROM events) + (SELECT count(*) FROM outbox_ready) + (SELECT count(*) FROM outbox_dedupe_keys) +
		(SELECT count(*) FROM recipe_orders)`).Scan(&drawn, &left)
	if err != nil {
		t.Fatal(err)
	}
	if drawn == nil || left != 0 {
		t.Errorf("%d rows are left; was a sequence drawn: %t", left, drawn != nil)
	}
}

func compare(t *testing.T, what string, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d of kind %s, want %d", len(got), what, len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("%s %d:\n got %.400s\nwant %.400s", what, i+1, got[i], want[i])
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// run gives a recipe events and the address in the form that its client takes. It returns all that the recipe printed.
// The locale is the poorest: texts are UTF-8 whatever it says.
func run(t *testing.T, address, events string, command []string) (string, error) {
	t.Helper()
	parsed, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := parsed.User.Password()
	options := parsed.Query()
	options.Set("user", parsed.User.Username())
	options.Set("password", password)
	name := strings.TrimPrefix(parsed.Path, "/")
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DATABASE_URL="+address,
		"JDBC_DATABASE_URL=jdbc:postgresql://"+parsed.Host+parsed.Path+"?"+options.Encode(),
		fmt.Sprintf("PDO_DSN=pgsql:host=%s;port=%s;dbname=%s;user=%s;password=%s",
			parsed.Hostname(), parsed.Port(), name, parsed.User.Username(), password))
	cmd.Stdin = strings.NewReader(events)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err = cmd.Run()
	return output.String(), err
}
