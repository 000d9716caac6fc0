package model

import (
	"errors"
	"fmt"

	"github.com/postrider/postrider/tools/model/search"
)

// Config bounds the model. Crashes, pauses, expiries, lost answers, late bytes and stale reads are not bounded: there may
// be any number of them, anywhere.
type Config struct {
	Workers         uint8 // 1 to 3
	Events          uint8 // 1 to 7, in order
	Claim           uint8 // most events in a claim, 1 to 7; a claim is published in one batch or several
	Epochs          uint8 // acquisitions of the lease, 1 to 5
	Takes           uint8 // takeovers under one lease, 1 to 3
	StaleReads      bool  // reads of the last record may return earlier ones
	DatabaseCrashes bool  // the database may crash and lose commits that were not flushed
	Progress        bool  // look for states from which the work cannot be finished; takes memory for every step
	MaxStates       int   // go no further when there are more; 0: no limit
}

// ErrConfig is in every error about a Config.
var ErrConfig = errors.New("model config")

// Validate names the first field that is out of its range.
func (c Config) Validate() error {
	for _, f := range []struct {
		name         string
		value, limit uint8
	}{
		{"Workers", c.Workers, maxWorkers},
		{"Events", c.Events, maxEvents},
		{"Claim", c.Claim, maxEvents},
		{"Epochs", c.Epochs, 5},
		{"Takes", c.Takes, 3},
	} {
		if f.value < 1 || f.value > f.limit {
			return fmt.Errorf("%w: %s is %d; it must be 1 to %d", ErrConfig, f.name, f.value, f.limit)
		}
	}
	return nil
}

// all returns every event.
func (c Config) all() Set { return 1<<c.Events - 1 }

// Initial implements search.System: everything is committed and nobody has begun.
func (c Config) Initial() State {
	return State{Database: Database{Rows: c.all(), Durable: c.all()}}
}

// Result is what an exploration found.
type Result = search.Result[State, Note]

// Explore visits every state, the nearest first.
func Explore(c Config, p Protocol) (Result, error) {
	if err := c.Validate(); err != nil {
		return Result{}, err
	}
	return search.Run(newSystem(c, p), c.options()), nil
}

func (c Config) options() search.Options {
	options := search.Options{MaxStates: c.MaxStates}
	if c.Progress {
		options.Progress = Progress
	}
	return options
}

func newSystem(c Config, p Protocol) *system {
	return &system{Config: c, Protocol: p, canon: canon{named: p.MarkWithoutEpoch}}
}

// Finished implements search.System: every event is in the stream and every mark durable.
func (x *system) Finished(s *State) bool {
	return s.Database.Durable == 0 && s.Stream.stored() == x.all()
}

// Live implements search.System: the lease can be acquired once more, or its holder is there.
func (x *system) Live(s *State) bool {
	holder := false
	for _, me := range s.Workers {
		holder = holder || me.At != Idle && me.Epoch == s.Database.Epoch
	}
	return holder || s.Database.Epoch < x.Epochs
}
