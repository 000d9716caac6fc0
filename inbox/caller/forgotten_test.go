package caller_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/inbox/caller"
	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// A call is under way while its database fails over and forgets it. What is queued then gets its number, and not its answer.
func TestAnAnswerOfAForgottenCallIsNoOtherCalls(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, localpg.Config{})
	w := newWorldAt(t, server.URL())
	standby := pgtest.NewStandby(t, server)
	w.db.Reset()
	came, goOn := make(chan struct{}), make(chan struct{})
	answer, once := sync.OnceFunc(func() { close(goOn) }), sync.Once{}
	defer answer()
	w.hook(nil, func(inbox.Call) bool { once.Do(func() { close(came); <-goOn }); return true })
	w.queue(t, "forgotten")
	c, err := caller.New(w.db, remote{w.http.URL}, keep, caller.Config{Name: sender, Interval: 10 * time.Millisecond, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx); w.ended <- struct{}{} }()
	select {
	case <-came:
	case <-time.After(clustertest.Patience):
		t.Fatal("no call came")
	}
	standby.Promote(t)
	w.db.Reset()
	w.queue(t, "another")
	answer()
	w.wantForgotten(t, sync.OnceValue(func() error { cancel(); return <-ended }))
	if waits := texts(t, w.db, `SELECT convert_from(request, 'UTF8') FROM inbox_calls`); len(waits) != 1 {
		t.Errorf("what was queued behind the failover does not wait, and was never sent: %q; answers %q, effects %q", waits,
			texts(t, w.db, `SELECT answer FROM answers`), texts(t, w.far, `SELECT request FROM effects`))
	}
	if err := c.GoOn(t.Context()); errors.Is(err, caller.ErrForgotten) {
		t.Error(err)
	}
}
