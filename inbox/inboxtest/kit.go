package inboxtest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/message"
)

// Schema holds the kits' inbox tables.
const Schema = "inboxtest"

// Kit delivers messages to one handler.
type Kit struct {
	t       testing.TB
	pool    *pgxpool.Pool
	name    string
	handler inbox.Handler
	box     *inbox.Inbox
	calls   atomic.Int64
}

// New makes a kit with a consumer that has seen nothing. The pool's role must be allowed to create a schema.
func New(t testing.TB, pool *pgxpool.Pool, handler inbox.Handler) *Kit {
	t.Helper()
	if err := inbox.Migrate(t.Context(), pool, Schema); err != nil {
		t.Fatalf("inboxtest: %v", err)
	}
	k := &Kit{t: t, pool: pool, name: "test " + uuid.NewString(), handler: handler}
	k.Restart()
	return k
}

// Event builds a message that looks as if Postrider had published it. The same stream and version give the same event.
func Event(stream string, version int64, kind string, payload []byte) message.Message {
	return message.Message{
		EventID: uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "%s/%d", stream, version)),
		Stream:  stream, Version: version, Type: kind, Sequence: version, Subject: "events.test." + kind, Payload: payload,
	}
}

// Restart forgets the process's memory; the database keeps its own.
func (k *Kit) Restart() {
	k.t.Helper()
	box, err := inbox.New(k.pool, inbox.Config{
		Name: k.name, Schema: Schema, BackoffBase: time.Millisecond, BackoffMax: time.Millisecond, Jitter: inbox.JitterNone,
	})
	if err != nil {
		k.t.Fatalf("inboxtest: %v", err)
	}
	k.box = box
}

// Inbox is the inbox under the kit.
func (k *Kit) Inbox() *inbox.Inbox { return k.box }

// Calls returns the number of the handler's runs.
func (k *Kit) Calls() int { return int(k.calls.Load()) }

func (k *Kit) handle(ctx context.Context, tx pgx.Tx, m message.Message) ([]byte, error) {
	k.calls.Add(1)
	return k.handler(ctx, tx, m)
}

// Deliver brings a message and returns its outcome.
func (k *Kit) Deliver(m message.Message) inbox.Outcome {
	k.t.Helper()
	o, err := k.box.Process(k.t.Context(), m, k.handle)
	if err != nil {
		k.t.Fatalf("inboxtest: deliver %s: %v", describe(m), err)
	}
	return o
}

// Apply is Deliver for a message that must be applied.
func (k *Kit) Apply(m message.Message) inbox.Outcome {
	k.t.Helper()
	o := k.Deliver(m)
	if o.Status != inbox.Applied {
		k.t.Errorf("inboxtest: %s is %s, not applied: %v", describe(m), o.Status, o.Err)
	}
	return o
}

// ApplyBatch delivers messages in one transaction; all must be applied.
func (k *Kit) ApplyBatch(messages []message.Message) {
	k.t.Helper()
	outcomes, err := k.box.ProcessBatch(k.t.Context(), messages, k.handle)
	if err != nil {
		k.t.Fatalf("inboxtest: deliver a batch: %v", err)
	}
	for n, o := range outcomes {
		if o.Status != inbox.Applied {
			k.t.Errorf("inboxtest: %s is %s in a batch, not applied: %v", describe(messages[n]), o.Status, o.Err)
		}
	}
}

// Repeat brings a message again, to a process that does not remember it: the handler must not run.
func (k *Kit) Repeat(m message.Message) inbox.Outcome {
	k.t.Helper()
	k.Restart()
	return k.mustNotRun(m, inbox.Repeat)
}

// Late brings a message older than an applied one: it must be refused.
func (k *Kit) Late(m message.Message) inbox.Outcome {
	k.t.Helper()
	return k.mustNotRun(m, inbox.Outdated)
}

func (k *Kit) mustNotRun(m message.Message, want inbox.Status) inbox.Outcome {
	k.t.Helper()
	before := k.Calls()
	o := k.Deliver(m)
	if o.Status != want || k.Calls() != before {
		k.t.Errorf("inboxtest: %s is %s after %d calls, want %s after none", describe(m), o.Status, k.Calls()-before, want)
	}
	return o
}

// CrashBeforeCommit lets the handler make its effect and then ends its session, as the crash of a process does. Nothing
// of it may stay; the message is not acknowledged and comes again: call Apply next.
func (k *Kit) CrashBeforeCommit(m message.Message) {
	k.t.Helper()
	ran := false
	_, err := k.box.Process(k.t.Context(), m, func(ctx context.Context, tx pgx.Tx, m message.Message) ([]byte, error) {
		result, err := k.handle(ctx, tx, m)
		if err != nil {
			return nil, err
		}
		ran = true
		if _, err := k.pool.Exec(ctx, `SELECT pg_terminate_backend($1, 5000)`, tx.Conn().PgConn().PID()); err != nil {
			k.t.Errorf("inboxtest: end the session: %v", err)
		}
		return result, nil
	})
	switch {
	case !ran:
		k.t.Errorf("inboxtest: the handler did not make the effect of %s: %v", describe(m), err)
	case err == nil:
		k.t.Errorf("inboxtest: %s was committed although its session ended", describe(m))
	}
	k.Restart()
}

// CrashBeforeAck applies a message and loses the acknowledgement: the message comes again and must not run.
func (k *Kit) CrashBeforeAck(m message.Message) {
	k.t.Helper()
	first := k.Apply(m)
	if again := k.Repeat(m); string(again.Result) != string(first.Result) {
		k.t.Errorf("inboxtest: the repeat of %s gives result %q, the first time it was %q", describe(m), again.Result, first.Result)
	}
}

func describe(m message.Message) string { return fmt.Sprintf("%s version %d", m.Stream, m.Version) }
