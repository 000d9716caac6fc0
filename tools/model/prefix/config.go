package prefix

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/postrider/postrider/tools/model/search"
)

// Config bounds the model. Crashes of workers, pauses, expiries, lost answers, late bytes and stale reads are not bounded:
// there may be any number of them, anywhere.
type Config struct {
	Workers      uint8 // 1 to 3
	Events       uint8 // 1 to 5, in order
	Fail         Set   // those of them that may fail, any number of times
	Claim        uint8 // most rows read at once
	Acquisitions uint8 // of the lease
	Takes        uint8 // takeovers under one lease
	Failovers    uint8 // how often the database loses what was not flushed, or what the standby lacks
	LateMarks    uint8 // most marks that the network holds at once
	Reclaim      bool  // rows behind the cursor are deleted, at any time
	Lagging      bool  // the standby lacks lease changes, too
	StaleReads   bool  // reads of the last record may return earlier ones
	Progress     bool  // look for states from which the work cannot be finished
	MaxStates    int   // go no further when there are more; 0: no limit
}

// ErrConfig is in every error about a Config.
var ErrConfig = errors.New("model config")

// Result is what an exploration found.
type Result = search.Result[State, Note]

// Explore visits every state, the nearest first.
func Explore(c Config, p Protocol) (Result, error) {
	for _, f := range []struct {
		name         string
		value, limit uint8
	}{{"Workers", c.Workers, maxWorkers}, {"Events", c.Events, maxEvents}, {"Claim", c.Claim, maxEvents}, {"Acquisitions", c.Acquisitions, 5}, {"Takes", c.Takes, 3}} {
		if f.value < 1 || f.value > f.limit {
			return Result{}, fmt.Errorf("%w: %s is %d; it must be 1 to %d", ErrConfig, f.name, f.value, f.limit)
		}
	}
	options := search.Options{MaxStates: c.MaxStates}
	if c.Progress {
		options.Progress = CanFinish
	}
	return search.Run(&system{Config: c, Protocol: p}, options), nil
}

// Initial implements search.System: everything is committed and nobody has begun.
func (x *system) Initial() State {
	p := Partition{Ready: upTo(x.Events)}
	return State{Database: Database{Partition: p, Standby: p}}
}

// Key implements search.System. States count as one that differ only in which worker is which, unless a
// failover gives one epoch to two of them, and in requests that can change nothing any more.
func (x *system) Key(s *State, key []byte) []byte {
	d := s.Database
	flags := byte(0)
	for i, set := range []bool{d.Expired, d.Trespassed} {
		if set {
			flags |= 1 << i
		}
	}
	key = append(key, flags, s.Acquired, s.Taken, s.Failovers, s.Stream.Len)
	named := x.exact || x.Lagging || x.MarkWithoutOwner
	name := func(owner uint8) byte {
		if named || owner == 0 {
			return owner
		}
		return 1
	}
	for _, p := range []Partition{d.Partition, d.Standby} {
		key = append(key, name(p.Owner), p.Epoch, p.Delivered, byte(p.Parked), byte(p.Ready))
	}
	for _, m := range s.Stream.messages() {
		m.Owner = name(m.Owner)
		key = m.key(key)
	}
	workers := s.Workers
	if !named {
		slices.SortFunc(workers[:], func(a, b Worker) int { return cmp.Compare(a.Epoch, b.Epoch) })
	}
	for _, w := range workers {
		if key = append(key, byte(w.At)); w.At == Idle {
			continue
		}
		dirty := byte(0)
		if w.Dirty {
			dirty = 1
		}
		key = append(key, w.Epoch, w.Takes, w.Take, w.Expect, w.Batch, w.Done.Upto, byte(w.Done.Holes), w.Next.Upto, byte(w.Next.Holes), byte(w.Publish), dirty)
		w.Known.Owner = name(w.Known.Owner)
		key = w.Known.key(key)
	}
	return x.late(s, key, name)
}

func (m Message) key(key []byte) []byte {
	return append(key, byte(m.Kind), m.Epoch, m.Owner, m.Take, m.Batch, m.Event, m.Upto, byte(m.Holes))
}

// idle reports whether the arrival of the request can never change anything any more.
func (x *system) idle(r Request, s *State, last uint8) bool {
	if r.Record.Kind != Mark {
		return !r.Blind && r.Expect != last
	}
	over := r.Record.Epoch != s.Database.Epoch && !x.MarkWithoutOwner && (!x.Lagging || s.Failovers == x.Failovers)
	return over || x.changesNothing(r.Record, s.Database.Partition) && x.changesNothing(r.Record, s.Database.Standby)
}

// changesNothing: what the mark says is known, and no event that it passes can be parked again.
func (x *system) changesNothing(m Message, p Partition) bool {
	return m.Upto <= p.Delivered && p.Parked&m.stored() == 0 && !x.ParkAgain
}

// late writes the set of requests in one order.
func (x *system) late(s *State, key []byte, name func(uint8) byte) []byte {
	_, last := s.Stream.last()
	var packed [maxLate][12]byte
	n := 0
	for _, r := range s.Late {
		if r == (Request{}) {
			break
		}
		if !x.exact && x.idle(r, s, last) {
			continue
		}
		blind := byte(0)
		if r.Blind {
			blind = 1
		}
		r.Record.Owner = name(r.Record.Owner)
		copy(packed[n][:], append(r.Record.key(nil), byte(r.Events), r.Expect, blind))
		n++
	}
	slices.SortFunc(packed[:n], func(a, b [12]byte) int { return slices.Compare(a[:], b[:]) })
	for _, p := range packed[:n] {
		key = append(key, p[:]...)
	}
	return key
}
