package walk

import (
	"errors"
	"fmt"

	"github.com/postrider/postrider/tools/model/search"
)

// Config bounds the model. Crashes of workers and of the database, pauses, expiries, lost answers, late bytes and stale
// reads are not bounded: there may be any number of them, anywhere.
type Config struct {
	Workers      uint8 // 1 to 3
	Events       uint8 // 1 to 4, in order
	Fail         Set   // the events that may fail, any number of times
	Claim        uint8 // most rows read at once, besides parked ones: a single message, or an atomic batch
	Acquisitions uint8 // of the lease, 1 to 5
	Takes        uint8 // takeovers under one lease, besides those that a loss brings, 1 to 3
	Losses       uint8 // number of times the stream is made anew or restored, 0 to 2
	Remade       bool  // it is made anew, and never restored
	Zombies      bool  // a loss may find a worker about to write
	StaleReads   bool  // reads of the last record may return earlier ones
	Crashes      bool  // the database may crash and lose commits that are not durable
	Lagging      bool  // nothing is durable at once: a failover to a standby that lags behind
	Progress     bool  // look for states from which the work cannot be finished; takes memory for every step
	MaxStates    int   // the search ends beyond it; 0: no limit
}

// ErrConfig is in every error about a Config.
var ErrConfig = errors.New("model config")

// Validate names the first field that is out of its range.
func (c Config) Validate() error {
	for _, f := range []struct {
		name                string
		value, least, limit uint8
	}{
		{"Workers", c.Workers, 1, maxWorkers},
		{"Events", c.Events, 1, maxEvents},
		{"Claim", c.Claim, 1, maxEvents},
		{"Acquisitions", c.Acquisitions, 1, 5},
		{"Takes", c.Takes, 1, 3},
		{"Losses", c.Losses, 0, 2},
	} {
		if f.value < f.least || f.value > f.limit {
			return fmt.Errorf("%w: %s is %d; it must be %d to %d", ErrConfig, f.name, f.value, f.least, f.limit)
		}
	}
	return nil
}

// Initial implements search.System: everything is committed and nobody has begun.
func (x *system) Initial() State {
	r := Row{Ready: search.UpTo(x.Events)}
	return State{Database: Database{Row: r, Durable: r}, Stream: Stream{Life: 1}}
}

// Result counts the states of an exploration, and has its counterexamples.
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
	d := s.Database.Durable
	return d.Ready|d.Parked == 0 && !d.Stands && s.Stream.stored() == search.UpTo(x.Events)
}

// Live implements search.System: the lease can be acquired once more.
func (x *system) Live(s *State) bool { return s.Acquired < x.Acquisitions }
