package inbox_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/inbox"
)

func TestCallsOfASender(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	away := errors.New("away")
	for _, step := range []struct {
		name           string
		generation     int
		id             int64
		fails          error
		status         inbox.Status
		result, reason string
		findings       inbox.Finding
		missing        int64
		err            error
	}{
		{name: "first", id: 1, status: inbox.Applied, result: "1"},
		{name: "repeat", id: 1, fails: errors.New("must not run"), status: inbox.Repeat, result: "1"},
		{name: "next", id: 2, status: inbox.Applied, result: "2"},
		{name: "gap", id: 5, status: inbox.Applied, result: "5", findings: inbox.Gap, missing: 2},
		{name: "older", id: 2, status: inbox.Outdated, findings: inbox.Reversal},
		{name: "retryable", id: 6, fails: away, err: away},
		{name: "again", id: 6, status: inbox.Applied, result: "6"},
		{name: "final", id: 7, fails: inbox.Final(errors.New("no such account")), status: inbox.Dead, reason: "no such account"},
		{name: "final, repeat", id: 7, status: inbox.Repeat, reason: "no such account"},
		{name: "behind a final one", id: 8, status: inbox.Applied, result: "8"},
		{name: "anew", generation: 1, id: 1, status: inbox.Applied, result: "1"},
		{name: "former generation", id: 9, status: inbox.Outdated, findings: inbox.LowerGeneration},
	} {
		o, err := b.box.Call(t.Context(), inbox.Call{Sender: "bank", Generation: step.generation, ID: step.id},
			func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
				m := event("calls", step.id)
				if _, err := apply(ctx, tx, m); err != nil {
					return nil, err
				}
				return []byte{byte('0' + step.id)}, step.fails
			})
		reason := ""
		if o.Err != nil {
			reason = o.Err.Error()
		}
		if o.Status != step.status || string(o.Result) != step.result || o.Findings != step.findings || o.Missing != step.missing ||
			reason != step.reason || !errors.Is(err, step.err) || inbox.IsFinal(o.Err) != (step.reason != "") {
			t.Errorf("%s: %s result %q findings %q missing %d reason %q, error %v",
				step.name, o.Status, o.Result, o.Findings, o.Missing, reason, err)
		}
	}
	if got := b.effects(t, "calls"); len(got) != 6 {
		t.Errorf("effects are %v", got)
	}
	if last, err := b.box.LastCall(t.Context(), "bank"); err != nil || last != (inbox.Call{Sender: "bank", Generation: 1, ID: 1}) {
		t.Errorf("the last call is %v, %v", last, err)
	}
}

func TestCallsExcludeEachOther(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	var group sync.WaitGroup
	statuses := make(chan inbox.Status, 8)
	for range cap(statuses) {
		group.Go(func() {
			o, err := b.box.Call(t.Context(), inbox.Call{Sender: "one", ID: 1}, func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
				return apply(ctx, tx, event("calls", 1))
			})
			if err != nil {
				t.Error(err)
			}
			statuses <- o.Status
		})
	}
	group.Wait()
	close(statuses)
	counts := map[inbox.Status]int{}
	for s := range statuses {
		counts[s]++
	}
	if counts[inbox.Applied] != 1 || counts[inbox.Repeat] != 7 || len(b.effects(t, "calls")) != 1 {
		t.Errorf("%v, effects %v", counts, b.effects(t, "calls"))
	}
}

func TestBadCallsAreRefused(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	for _, c := range []inbox.Call{{}, {Sender: "s"}, {Sender: "s", ID: -1}, {Sender: "s", ID: 1, Generation: -1}, {Sender: "\x00", ID: 1}} {
		if _, err := b.box.Call(t.Context(), c, nil); !errors.Is(err, inbox.ErrInvalidCall) {
			t.Errorf("%+v gives %v", c, err)
		}
	}
}
