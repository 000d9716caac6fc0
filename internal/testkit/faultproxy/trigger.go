package faultproxy

import (
	"slices"
	"sync"
)

// Trigger strikes once.
type Trigger struct {
	fired chan struct{}

	mu      sync.Mutex
	claimed bool // by the connection that it is about to strike
	stopped bool
}

// Fired returns a channel that is closed when the trigger has struck.
func (t *Trigger) Fired() <-chan struct{} { return t.fired }

// Stop disarms the trigger. It returns false when the trigger has struck or may still be about to: a commit is on
// its way whose answer it waits for.
func (t *Trigger) Stop() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	return !t.claimed
}

func (t *Trigger) claim() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.claimed || t.stopped {
		return false
	}
	t.claimed = true
	return true
}

func (t *Trigger) unclaim() {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-t.fired:
	default:
		t.claimed = false
	}
}

func (t *Trigger) fire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.fired)
}

// done reports whether the trigger will not strike any more.
func (t *Trigger) done() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-t.fired:
		return true
	default:
		return t.stopped && !t.claimed
	}
}

// armed are triggers with their rules.
type armed[rule any] struct {
	mu   sync.Mutex
	list []armedTrigger[rule]
}

type armedTrigger[rule any] struct {
	trigger *Trigger
	rule    rule
}

func (a *armed[rule]) add(r rule) *Trigger {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := &Trigger{fired: make(chan struct{})}
	a.list = append(a.list, armedTrigger[rule]{t, r})
	return t
}

// none reports whether there is nothing to claim.
func (a *armed[rule]) none() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.list) == 0
}

// claim returns the first trigger whose rule applies, or nil.
func (a *armed[rule]) claim(applies func(rule) bool) (*Trigger, rule) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = slices.DeleteFunc(a.list, func(one armedTrigger[rule]) bool { return one.trigger.done() })
	for _, one := range a.list {
		if applies(one.rule) && one.trigger.claim() {
			return one.trigger, one.rule
		}
	}
	var none rule
	return nil, none
}
