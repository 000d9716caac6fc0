package inboxtest

import (
	"cmp"
	"context"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/message"
)

// Case is a handler with the means to judge it.
type Case struct {
	// Pool has the handler's tables.
	Pool    *pgxpool.Pool
	Handler inbox.Handler
	// Messages go to the handler, each once, each stream's versions ascending.
	Messages []message.Message
	// Reset brings the handler's tables into the state before the first message.
	Reset func(ctx context.Context) error
	// State describes the handler's effects: equal for equal effects.
	State func(ctx context.Context) (string, error)
	// OrderMatters marks effects that depend on other streams; then streams are not played apart.
	OrderMatters bool
}

// Verify plays the messages without any trouble and then with each kind of it, and compares the effects. It runs its
// parts one after the other.
func Verify(t *testing.T, s Case) {
	t.Helper()
	if s.Pool == nil || s.Handler == nil || s.Reset == nil || s.State == nil || len(s.Messages) == 0 {
		t.Fatal("inboxtest: Pool, Handler, Messages, Reset and State are needed")
	}
	want := s.play(t, func(k *Kit) {
		for _, m := range s.Messages {
			k.Apply(m)
		}
	})
	for _, part := range s.parts() {
		t.Run(part.name, func(t *testing.T) {
			if got := s.play(t, part.run); got != want {
				t.Errorf("the effects differ.\nwithout trouble: %s\nwith it:         %s", want, got)
			}
		})
	}
}

type part struct {
	name string
	run  func(*Kit)
}

func (s Case) parts() []part {
	each := func(do func(*Kit, message.Message)) func(*Kit) {
		return func(k *Kit) {
			for _, m := range s.Messages {
				do(k, m)
			}
		}
	}
	parts := []part{
		{"repeated", each(func(k *Kit, m message.Message) { k.Apply(m); k.Repeat(m); k.Repeat(m) })},
		{"all of it again", func(k *Kit) {
			each(func(k *Kit, m message.Message) { k.Apply(m) })(k)
			each(func(k *Kit, m message.Message) { k.Repeat(m) })(k)
		}},
		{"crash before commit", each(func(k *Kit, m message.Message) { k.CrashBeforeCommit(m); k.Apply(m) })},
		{"crash before acknowledgement", each((*Kit).CrashBeforeAck)},
		{"in one transaction", func(k *Kit) { k.ApplyBatch(s.Messages) }},
	}
	if !s.OrderMatters {
		parts = append(parts, part{"streams apart", func(k *Kit) {
			sorted := slices.Clone(s.Messages)
			slices.SortStableFunc(sorted, func(a, b message.Message) int { return cmp.Compare(a.Stream, b.Stream) })
			for _, m := range sorted {
				k.Apply(m)
			}
		}})
	}
	return parts
}

func (s Case) play(t *testing.T, run func(*Kit)) string {
	t.Helper()
	if err := s.Reset(t.Context()); err != nil {
		t.Fatalf("inboxtest: reset: %v", err)
	}
	run(New(t, s.Pool, s.Handler))
	state, err := s.State(t.Context())
	if err != nil {
		t.Fatalf("inboxtest: state: %v", err)
	}
	return state
}
