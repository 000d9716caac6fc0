package ops_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/delivery/ops"
)

// A part of an id will do where it names one thing alone; else the candidates are named.
func TestShortenedIds(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	const first, second = "0199a2f0-5b1c-7c00-8000-00000a1b2c3d", "0199a2f0-5b1c-7c00-8000-00000a1b2c4e"
	for _, id := range []string{first, second} {
		one[int64](t, b, `SELECT outbox_append('s', 'thing.done', '{}', event_id => $1)`, id)
		if _, err := b.pool.Exec(t.Context(), `INSERT INTO outbox_workers (worker_id, heartbeat_until) VALUES ($1, now())`, id); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string]string{first: first, first[:35]: first, "1b2c3d": first, "2C4E": second, "0199a2f0-5b1c-7c00-8000-00000a1b2c4": second} {
		if id, err := b.op.FindWorker(t.Context(), text); err != nil || id.String() != want {
			t.Errorf("worker %s: %s, %v", text, id, err)
		}
	}
	for text, want := range map[string]string{first: first, first[:35]: first, strings.ToUpper(second[:35]): second} {
		if id, err := b.op.FindEvent(t.Context(), text); err != nil || id.String() != want {
			t.Errorf("event %s: %s, %v", text, id, err)
		}
	}
	var input *ops.InputError
	for text, says := range map[string]string{"0199a2f0": first + ", " + second, "0199": second, "abcdef": "no worker", "3d": "4 characters", "%": "4 characters", "one": "4 characters"} {
		id, err := b.op.FindWorker(t.Context(), text)
		if !errors.As(err, &input) || input.Field != ops.FieldWorker || !strings.Contains(input.Problem, says) || id != uuid.Nil {
			t.Errorf("worker %s: %s, %v", text, id, err)
		}
	}
	for text, says := range map[string]string{"0199a2f0": first + ", " + second, "0199a2f0-5b1c": second, "0199a2f1": "no event", "0199": "8 characters", "0199a2f0-5b1-": "8 characters"} {
		id, err := b.op.FindEvent(t.Context(), text)
		if !errors.As(err, &input) || input.Field != ops.FieldEventID || !strings.Contains(input.Problem, says) || id != uuid.Nil {
			t.Errorf("event %s: %s, %v", text, id, err)
		}
	}
}
