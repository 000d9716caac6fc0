package model

import (
	"errors"
	"fmt"

	"github.com/postrider/postrider/tools/model/search"
)

// Config bounds the model. Crashes of workers and of the database, pauses, expiries, lost answers, late bytes and stale
// reads are not bounded: there may be any number of them, anywhere.
type Config struct {
	Workers      uint8 // 1 to 3
	Events       uint8 // 1 to 5, in order
	Fail         Set   // the events that may fail, any number of times
	Claim        uint8 // most rows read at once, besides parked ones
	Acquisitions uint8 // of the lease, 1 to 5
	Takes        uint8 // takeovers under one lease, 1 to 3
	StaleReads   bool  // reads of the last record may return earlier ones
	Crashes      bool  // the database may crash and lose commits that are not durable
	Lagging      bool  // changes of the lease row are not durable at once either: a failover to a standby that lags behind
	Cursor       bool  // a mark moves a cursor, and deletes nothing
	Reclaim      bool  // rows that the cursor has passed are deleted, at any time
	Singles      bool  // a worker may store its batch message by message
	Torn         bool  // the broker may store the first messages of a batch alone, and give no answer
	Compare      bool  // workers notice no crash, but marks and claims compare the marks' progress with the worker's
	Progress     bool  // look for states from which the work cannot be finished; takes memory for every step
	MaxStates    int   // the search ends beyond it; 0: no limit
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
		{"Acquisitions", c.Acquisitions, 5},
		{"Takes", c.Takes, 3},
	} {
		if f.value < 1 || f.value > f.limit {
			return fmt.Errorf("%w: %s is %d; it must be 1 to %d", ErrConfig, f.name, f.value, f.limit)
		}
	}
	return nil
}

// Initial implements search.System: everything is committed and nobody has begun.
func (x *system) Initial() State {
	p := Partition{Ready: search.UpTo(x.Events)}
	return State{Database: Database{Partition: p, Durable: p}}
}

// Result holds the findings of an exploration.
type Result = search.Result[State, Note]

// Explore visits every state, the nearest first.
func Explore(c Config, p Protocol) (Result, error) {
	if err := c.Validate(); err != nil {
		return Result{}, err
	}
	return search.Run(&system{Config: c, Protocol: p}, c.options()), nil
}

func (c Config) options() search.Options {
	options := search.Options{MaxStates: c.MaxStates}
	if c.Progress {
		options.Progress = CanFinish
	}
	return options
}

// Finished implements search.System: every event is in the stream, and no crash brings work back.
func (x *system) Finished(s *State) bool {
	return s.Database.Durable.waiting()|s.Database.Durable.Parked == 0 && s.Stream.stored() == search.UpTo(x.Events)
}

// Live implements search.System: the lease can be acquired once more, or its holder is there and may go on.
func (x *system) Live(s *State) bool {
	for w, me := range s.Workers {
		if me.At != Idle && s.Database.holds(owner(uint8(w)), me.Epoch) && (!me.Stale && me.At != Lost || me.Takes != x.Takes) {
			return true
		}
	}
	return s.Acquired < x.Acquisitions
}
