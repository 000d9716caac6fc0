package caller_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/inbox/caller"
	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

func did(requests []string) []string {
	list := make([]string, len(requests))
	for i, request := range requests {
		list[i] = "did " + request
	}
	return list
}

// numbered are requests.
func numbered(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint("request ", i)
	}
	return list
}

// want wants these requests carried out once each in their order, and answered so.
func (w *world) want(t *testing.T, requests []string) {
	t.Helper()
	if got := w.answered(t); !slices.Equal(got, did(requests)) {
		t.Errorf("answers are %q", got)
	}
	if got := texts(t, w.far, `SELECT request FROM effects ORDER BY n`); !slices.Equal(got, requests) {
		t.Errorf("effects are %q, want %q", got, requests)
	}
}

// A third of the calls is lost on its way there and a third on its way back, and an answer is taken in at the third attempt.
func TestCallsAreCarriedOutOnceInTheirOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tried := map[int64]int{}
	w.hook(func(c inbox.Call) bool { tried[c.ID]++; return c.ID%3 != 0 || tried[c.ID] > 1 },
		func(c inbox.Call) bool { return c.ID%3 != 1 || tried[c.ID] > 1 })
	do(t, w.db, `UPDATE moody SET refusals = 2`)
	requests := numbered(8)
	w.queue(t, requests...)
	stop := w.run(t)
	w.want(t, requests)
	if err := stop(); err != nil {
		t.Error(err)
	}
	if last, err := w.box.LastCall(t.Context(), sender); err != nil || last.ID != 8 || last.Generation != 0 {
		t.Errorf("the receiver's last call is %+v, %v", last, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls <= 8 {
		t.Errorf("only %d calls came: none was sent again", w.calls)
	}
}

func TestACallIsQueuedWithItsTransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.caller(t)
	rolledBack := errors.New("rolled back on purpose")
	if err := pgx.BeginFunc(t.Context(), w.db, func(tx pgx.Tx) error {
		return errors.Join(c.Queue(t.Context(), tx, []byte("never")), rolledBack)
	}); !errors.Is(err, rolledBack) {
		t.Fatal(err)
	}
	w.queue(t, "one", "no", "")
	w.run(t)
	if got := w.answered(t); !slices.Equal(got, []string{"did one", "no: we do not", "did "}) {
		t.Errorf("answers are %q", got)
	}
	if last, err := w.box.LastCall(t.Context(), sender); err != nil || last.ID != 3 {
		t.Errorf("the receiver's last call is %+v, %v", last, err)
	}
}

// A caller that looks once an hour is woken by who has committed.
func TestACallerIsWoken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, err := caller.New(w.db, remote{w.http.URL}, keep, caller.Config{Name: sender, Interval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { ended <- c.Run(ctx) }()
	requests := numbered(3)
	for i, request := range requests {
		w.queue(t, request)
		c.Wake()
		w.want(t, requests[:i+1])
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// process starts a caller that can be killed.
func (w *world) process(t *testing.T) (kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), databaseVariable+"="+w.url, receiverVariable+"="+w.http.URL)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill() // it may be gone
		_ = cmd.Wait()         // killed
	})
	t.Cleanup(kill)
	return kill
}

// A caller that dies on the way leaves its call to the next one, which sends it under the same id.
func TestACallerIsKilled(t *testing.T) {
	t.Parallel()
	for name, where := range map[string]func(t *testing.T, w *world) (there <-chan struct{}, open func()){
		"before the call is carried out": func(_ *testing.T, w *world) (<-chan struct{}, func()) { return w.holdOnce(true) },
		"before it is answered":          func(_ *testing.T, w *world) (<-chan struct{}, func()) { return w.holdOnce(false) },
		"before its answer is committed": func(t *testing.T, w *world) (<-chan struct{}, func()) { t.Helper(); return w.closeGate(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			there, open := where(t, w)
			requests := numbered(3)
			w.queue(t, requests...)
			kill := w.process(t)
			select {
			case <-there:
			case <-time.After(clustertest.Patience):
				t.Error("no call came there")
			}
			kill()
			open()
			w.process(t)
			w.want(t, requests)
			if last, err := w.box.LastCall(t.Context(), sender); err != nil || last.ID != 3 {
				t.Errorf("the receiver's last call is %+v, %v: another id was given", last, err)
			}
		})
	}
}

// holdOnce has the first call stand still until it is let go, and get no answer then.
func (w *world) holdOnce(before bool) (there <-chan struct{}, open func()) {
	came, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	hold := func(inbox.Call) (answers bool) {
		answers = true
		once.Do(func() { close(came); <-goOn; answers = false })
		return answers
	}
	if before {
		w.hook(hold, nil)
	} else {
		w.hook(nil, hold)
	}
	return came, func() { close(goOn) }
}

// closeGate keeps answers from being taken in until it is opened; there: one stands before it.
func (w *world) closeGate(t *testing.T) (there <-chan struct{}, open func()) {
	t.Helper()
	tx, err := w.db.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), `SELECT FROM gate FOR UPDATE`)
	}
	if err != nil {
		t.Fatal(err)
	}
	came := make(chan struct{})
	go func() {
		defer close(came)
		clustertest.Until(t, "an answer stands before the gate", func(ctx context.Context) (stands bool, err error) {
			err = w.db.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity
				WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%gate%')`).Scan(&stands)
			return stands, err
		}, nil)
	}()
	return came, func() {
		if err := tx.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// A sender's database that was set back does not get other calls' results for its own: the caller ends, and goes on when a person says so.
func TestADatabaseThatForgotIsNoticed(t *testing.T) {
	t.Parallel()
	for name, running := range map[string]bool{"at the start": false, "while it runs": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.queue(t, numbered(5)...)
			stop := w.run(t)
			w.answered(t)
			if !running {
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				<-w.ended
			}
			do(t, w.db, `UPDATE inbox_callers SET call_id = 4, queued = 4`) // as an older copy has it
			w.queue(t, "another")
			if !running {
				stop = w.run(t)
			}
			w.wantForgotten(t, stop)
			c := w.caller(t)
			if err := c.GoOn(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.run(t)
			w.want(t, append(numbered(5), "another"))
			if last, err := w.box.LastCall(t.Context(), sender); err != nil || last != (inbox.Call{Sender: sender, Generation: 1, ID: 1}) {
				t.Errorf("the receiver's last call is %+v, %v", last, err)
			}
		})
	}
}

// forgetful is a receiver whose database was set back.
type forgetful struct{ last inbox.Call }

func (f forgetful) Call(context.Context, inbox.Call, []byte) ([]byte, error) { return nil, nil }

func (f forgetful) Last(context.Context, string) (inbox.Call, error) { return f.last, nil }

// A receiver that has forgotten calls which it answered raises an alarm; one that has not answered the last call does not.
func TestAReceiverThatForgotIsNoticed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.queue(t, numbered(3)...)
	stop := w.run(t)
	w.answered(t)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for theirs, alarm := range map[int64]bool{2: true, 3: false} {
		var log bytes.Buffer
		c, err := caller.New(w.db, forgetful{inbox.Call{Sender: sender, ID: theirs}}, keep, caller.Config{
			Name: sender, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		w.queue(t, fmt.Sprint("new ", theirs))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		w.answered(t)
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(log.String(), "forgotten calls"); got != alarm {
			t.Errorf("the receiver's last call is %d: %s", theirs, &log)
		}
		do(t, w.db, `UPDATE inbox_callers SET call_id = 3`)
	}
}

// What another process sent and the database has forgotten is not taken for what this one sends: each copy is compared.
func TestACopyThatForgotIsNoticed(t *testing.T) {
	t.Parallel()
	for name, restored := range map[string]bool{"another server": false, "restored": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := pgtest.Server(t, localpg.Config{})
			w := newWorldAt(t, server.URL())
			w.queue(t, numbered(5)...)
			stop := w.run(t)
			w.answered(t)
			_, err := w.box.Call(t.Context(), inbox.Call{Sender: sender, ID: 6}, func(context.Context, pgx.Tx) ([]byte, error) { return []byte("another's"), nil })
			if err != nil {
				t.Fatal(err)
			}
			w.db.Reset()
			if restored {
				do(t, w.db, `CREATE TABLE dump AS TABLE inbox_callers; TRUNCATE inbox_callers; INSERT INTO inbox_callers TABLE dump`)
			} else if err := server.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.db.Reset()
			w.queue(t, "another")
			w.wantForgotten(t, stop)
		})
	}
}

// The number of a call that was answered may come again, as the sequence of a logical replica begins anew: it is another call's.
func TestANumberThatComesAgainIsAnotherCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	requests := numbered(2)
	w.run(t)
	for i := range requests {
		w.queue(t, requests[i])
		w.want(t, requests[:i+1])
		do(t, w.db, `ALTER SEQUENCE inbox_calls_queued_seq RESTART`)
	}
}

// wantForgotten wants Run to end by itself, and nothing sent.
func (w *world) wantForgotten(t *testing.T, stop func() error) {
	t.Helper()
	clustertest.Until(t, "the caller has ended", func(ctx context.Context) (bool, error) {
		select {
		case <-w.ended:
			return true, nil
		default:
		}
		var waits bool
		err := w.db.QueryRow(ctx, `SELECT EXISTS (SELECT FROM inbox_calls)`).Scan(&waits)
		if err == nil && !waits {
			err = errors.New("it took another call's answer in")
		}
		return false, err
	}, nil)
	if err := stop(); !errors.Is(err, caller.ErrForgotten) {
		t.Errorf("it ended with %v", err)
	}
	if n := len(texts(t, w.db, `SELECT last_error FROM inbox_calls WHERE attempts > 0`)); n > 0 {
		t.Errorf("%d calls were sent", n)
	}
}

func TestWrongConfigurationIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, config := range []caller.Config{{}, {Name: "\x00"}, {Name: "\xff"}, {Name: strings.Repeat("x", 2001)}, {Name: "s", Interval: -1}, {Name: "s", Timeout: -1}, {Name: "s", Schema: "\x00"}} {
		if _, err := caller.New(w.db, remote{}, keep, config); !errors.Is(err, inbox.ErrConfig) {
			t.Errorf("%+v gives %v", config, err)
		}
	}
	if _, err := caller.New(w.db, nil, keep, caller.Config{Name: "s"}); !errors.Is(err, inbox.ErrConfig) {
		t.Errorf("no receiver gives %v", err)
	}
}

func TestACallerWithoutAPoolEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.queue(t, "one")
	c := w.caller(t)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(t.Context()) }()
	w.want(t, []string{"one"})
	w.db.Close()
	select {
	case err := <-ended:
		if !errors.Is(err, inbox.ErrClosed) {
			t.Errorf("Run returns %v, want %v", err, inbox.ErrClosed)
		}
	case <-time.After(time.Minute):
		t.Fatal("it goes on")
	}
}
