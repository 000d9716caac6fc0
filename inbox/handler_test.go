package inbox_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/message"
)

// What handlers do wrong is their own failure: it is counted, and nobody waits for the database.
func TestWhatHandlersDoWrong(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	_, err := b.pool.Exec(t.Context(), `
		CREATE TABLE checked (n int);
		CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not so'; END $$;
		CREATE CONSTRAINT TRIGGER late AFTER INSERT ON checked DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()`)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		do     func(ctx context.Context, tx pgx.Tx) ([]byte, error)
		status inbox.Status
		says   string
	}{
		"commits": {func(ctx context.Context, tx pgx.Tx) ([]byte, error) { return nil, tx.Commit(ctx) }, inbox.Failed, "must not end"},
		"commits by statement": {func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
			_, err := tx.Exec(ctx, `COMMIT`)
			return nil, err
		}, inbox.Dead, "must not end"},
		"panics": {func(context.Context, pgx.Tx) ([]byte, error) { panic("no") }, inbox.Failed, "panicked: no"},
		"leaves rows open": {func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
			_, err := tx.Query(ctx, `SELECT generate_series(1, 10)`) // that is what it does wrong
			return nil, err
		}, inbox.Failed, "rows open"},
		"breaks what is checked at the end": {func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
			_, err := tx.Exec(ctx, `INSERT INTO checked VALUES (1)`)
			return nil, err
		}, inbox.Failed, "not so"},
		"returns too much": {func(context.Context, pgx.Tx) ([]byte, error) { return make([]byte, 64<<20+1), nil }, inbox.Dead, "bytes"},
	} {
		outcomes, err := b.box.ProcessBatch(t.Context(), []message.Message{event("before "+name, 1), event(name, 1), event("after "+name, 1)},
			func(ctx context.Context, tx pgx.Tx, m message.Message) ([]byte, error) {
				if m.Stream == name {
					return c.do(ctx, tx)
				}
				return apply(ctx, tx, m)
			})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if o := outcomes[1]; o.Status != c.status || o.Err == nil || !strings.Contains(o.Err.Error(), c.says) {
			t.Errorf("one that %s is %s: %v", name, o.Status, o.Err)
		}
		if outcomes[0].Status != inbox.Applied && name != "commits by statement" || outcomes[2].Status != inbox.Applied {
			t.Errorf("%s: its neighbours are %s and %s", name, outcomes[0].Status, outcomes[2].Status)
		}
	}
}

// What the database answers on its own account is no failure of the handler: the message comes again.
func TestAnOutageIsNotTheHandlersFault(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	for _, code := range []string{"40001", "40P01", "55P03", "25P03", "25P04", "25006", "53100", "57P01", "57P05"} {
		o, err := b.box.Process(t.Context(), event("s", 1), func(ctx context.Context, tx pgx.Tx, _ message.Message) ([]byte, error) {
			_, err := tx.Exec(ctx, `DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '`+code+`'; END $$`)
			return nil, err
		})
		if err == nil {
			t.Errorf("of %s the handler is blamed: it is %s, %v", code, o.Status, o.Err)
		}
	}
}

func TestAHandlerThatDoesNotHeedItsContext(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	r := &reading{registry: registry}
	r.bundle = newBundle(t, func(c *inbox.Config) { c.HandlerTimeout, c.Registerer = 100*time.Millisecond, registry })
	leave, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		o, err := r.box.Process(t.Context(), event("s", 1), func(context.Context, pgx.Tx, message.Message) ([]byte, error) {
			<-leave
			return nil, errors.New("at last")
		})
		if o.Status != inbox.Failed {
			t.Errorf("it is %s", o.Status)
		}
		ended <- err
	}()
	r.waitMetric(t, "inbox_handlers_overdue", 1)
	close(leave)
	if err := <-ended; err != nil || r.metric(t, "inbox_handlers_overdue") != 0 {
		t.Errorf("it ends with %v, %g are overdue", err, r.metric(t, "inbox_handlers_overdue"))
	}
}
