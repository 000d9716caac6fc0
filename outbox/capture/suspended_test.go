package capture_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/outbox/capture"
)

// Who adopts a table and is suspended amid it, by Ctrl-Z or with the machine, keeps the application from its table for a while, not for ever.
func TestASuspendedAdoptionLetsTheApplicationGoOn(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE queue (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer text, kind text, body bytea)`,
		`INSERT INTO queue (customer, kind, body) SELECT 'c', 'k', 'x' FROM generate_series(1, 600)`)
	reached, over := make(chan struct{}), make(chan struct{})
	var once sync.Once
	ended := make(chan error, 1)
	go func() {
		_, err := l.Adopt(t.Context(), capture.Adoption{
			Table: "queue", Topic: "t", Map: map[string]string{"id": "event_id", "customer": "stream_id", "kind": "type", "body": "payload"},
		}, capture.Options{Progress: func(int64, int64) { once.Do(func() { close(reached); <-over }) }})
		ended <- err
	}()
	select {
	case <-reached:
	case err := <-ended:
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := l.Exec(ctx, `INSERT INTO queue (customer, kind, body) VALUES ('c', 'k', 'the application goes on')`); err != nil {
		t.Errorf("the application's statement: %v", err)
	}
	close(over)
	if err := <-ended; err == nil {
		t.Error("the suspended adoption was committed")
	}
}
