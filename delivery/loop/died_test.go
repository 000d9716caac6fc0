package loop_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/loop"
)

// lines keeps the log as lines of JSON.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// of returns the lines with that message.
func (l *lines) of(t *testing.T, message string) []map[string]any {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []map[string]any
	for line := range strings.Lines(l.text.String()) {
		var one map[string]any
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatal(err)
		}
		if one["msg"] == message {
			found = append(found, one)
		}
	}
	return found
}

// Whoever reads the log learns of each message that died, once, and of no other.
func TestEachDeadMessageIsALineOfTheLog(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	const dead = 40
	for i := range dead {
		b.append(t, fmt.Sprintf("broken-%d", i), `"`+strings.Repeat("x", 4<<10)+`"`)
	}
	failing := b.append(t, "missing", `1`)
	b.append(t, "fine", `1`)
	hide(t, b, failing)
	b.acquireAll(t, b.keeper)
	publisher := b.publisher(t)
	log := &lines{}
	r, err := loop.NewRelay(loop.Config{
		MaxPayload: 1 << 10, Logger: slog.New(slog.NewJSONHandler(log, nil)),
		Retry: delivery.RetryPolicy{Base: 1, Factor: 1, Max: 1, Jitter: delivery.JitterNone, MaxAttempts: 3},
	}, b.store, publisher, b.bell)
	if err != nil {
		t.Fatal(err)
	}
	stop := b.start(t, r)
	b.until(t, `SELECT count(*) FROM outbox WHERE dead_at IS NOT NULL`, dead+1)
	stop()
	seen := map[any]map[string]any{}
	for _, line := range log.of(t, "a message died") {
		if line["level"] != "WARN" || seen[line["sequence"]] != nil {
			t.Errorf("unexpected: %v", line)
		}
		seen[line["sequence"]] = line
	}
	if len(seen) != dead+1 {
		t.Fatalf("%d messages of %d that died are in the log", len(seen), dead+1)
	}
	for sequence, want := range map[float64]map[string]any{
		1:                {"stream": "broken-0", "topic": "default", "type": "thing.done", "attempts": 1.0, "reason": "payload too large"},
		float64(failing): {"stream": "missing", "topic": "default", "type": "", "attempts": 3.0, "reason": "event not found"},
	} {
		for key, value := range want {
			if got := seen[sequence][key]; got != value && (key != "reason" || !strings.Contains(fmt.Sprint(got), fmt.Sprint(value))) {
				t.Errorf("message %v: %s is %v, want %v", sequence, key, got, value)
			}
		}
	}
}

// A message keeps its last ten failures, and who had them.
func TestTheLastFailuresStayWithAMessage(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	failing := b.append(t, "missing", `1`)
	large := b.append(t, "large", `"`+strings.Repeat("x", 4<<10)+`"`)
	behind := b.append(t, "missing", `2`)
	b.append(t, "fine", `1`)
	hide(t, b, failing)
	b.acquireAll(t, b.keeper)
	stop := b.start(t, b.relay(t, loop.Config{
		MaxPayload: 1 << 10, Retry: delivery.RetryPolicy{Base: 1, Factor: 1, Max: 1, Jitter: delivery.JitterNone},
	}))
	b.until(t, `SELECT (attempts >= 12)::int FROM outbox WHERE stream_id = 'missing' AND NOT blocked`, 1)
	b.until(t, `SELECT count(*) FROM outbox WHERE dead_at IS NOT NULL`, 1)
	stop()
	one := func(sql string, sequence int64) (text string) {
		if err := b.pool.QueryRow(t.Context(), sql+` FROM outbox WHERE global_sequence = $1`, sequence).Scan(&text); err != nil {
			t.Fatal(err)
		}
		return text
	}
	if got := one(`SELECT jsonb_array_length(failures)::text`, failing); got != "10" {
		t.Errorf("%s failures are kept", got)
	}
	if got := one(`SELECT (failures -> 9 ->> 'text' = last_error AND (failures -> 9 ->> 'at')::timestamptz > (failures -> 0 ->> 'at')::timestamptz
		AND failures -> 9 ->> 'class' = 'temporary' AND failures -> 9 ->> 'worker_id' = '`+uuid.UUID(b.keeper.Owner()).String()+`')::text`, failing); got != "true" {
		t.Errorf("they are %s", one(`SELECT failures::text`, failing))
	}
	if got := one(`SELECT (failures -> 0 ->> 'class') || jsonb_array_length(failures)`, large); got != "permanent1" {
		t.Errorf("of the large one: %s", got)
	}
	if got := one(`SELECT coalesce(failures::text, 'none')`, behind); got != "none" {
		t.Errorf("of the one behind: %s", got)
	}
}
