package source

import (
	"cmp"
	"slices"
	"time"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/pgstore"
)

// MostNames bounds the distinct topics, and the distinct types.
const MostNames = 100

// NameLoad is the load of one topic or type.
type NameLoad struct {
	Name string
	// Other says that this is the sum of all names beyond MostNames.
	Other bool
	// PerSecond is the recent rate of publishing; nil: unknown.
	PerSecond *float64
	// Share holds the name's dead and oldest pending rows; nil: unknown.
	Share *pgstore.Share
}

// TopicLoads returns each topic's load, with rates in events a second; nil: unknown.
func (s Snapshot) TopicLoads(rates map[string]float64) []NameLoad {
	if s.Named == nil {
		return nameLoads(rates, nil)
	}
	return nameLoads(rates, s.Named.ByTopic)
}

// TypeLoads is TopicLoads for types.
func (s Snapshot) TypeLoads(rates map[string]float64) []NameLoad {
	if s.Named == nil {
		return nameLoads(rates, nil)
	}
	return nameLoads(rates, s.Named.ByType)
}

// nameLoads joins the rates by topic or type with the outbox's shares: names by rate, then by dead rows. Nil rates or shares are unknown.
// Names beyond MostNames are summed as Other.
func nameLoads(rates map[string]float64, shares map[string]pgstore.Share) []NameLoad {
	var list []NameLoad
	other := NameLoad{Name: delivery.OtherName, Other: true}
	add := func(name string) {
		one := NameLoad{Name: name, Other: name == delivery.OtherName}
		if rates != nil {
			one.PerSecond = new(rates[name])
		}
		if share, known := shares[name]; known {
			one.Share = &share
		} else if rest, all := shares[delivery.OtherName]; all && rest.Dead == 0 && rest.Oldest == 0 {
			one.Share = &pgstore.Share{Unknown: rest.Unknown} // the others' share is unknown, too
		}
		if one.Other {
			other = one
			return
		}
		list = append(list, one)
	}
	for name := range shares {
		add(name)
	}
	for name := range rates {
		if _, there := shares[name]; !there && name != "" {
			add(name)
		}
	}
	if nameless := rates[""]; nameless > 0 {
		other.PerSecond = new(other.rate() + nameless)
	}
	slices.SortFunc(list, func(a, b NameLoad) int {
		return cmp.Or(cmp.Compare(b.rate(), a.rate()), cmp.Compare(b.dead(), a.dead()), cmp.Compare(a.Name, b.Name))
	})
	for _, one := range list[min(len(list), MostNames):] {
		other = other.with(one)
	}
	if list = list[:min(len(list), MostNames)]; other.rate() > 0 || other.dead() > 0 || other.oldest() > 0 {
		list = append(list, other)
	}
	return list
}

func (n NameLoad) rate() float64 {
	if n.PerSecond == nil {
		return 0
	}
	return *n.PerSecond
}

func (n NameLoad) dead() int64 {
	if n.Share == nil {
		return 0
	}
	return n.Share.Dead
}

func (n NameLoad) oldest() time.Duration {
	if n.Share == nil {
		return 0
	}
	return n.Share.Oldest
}

// with adds another name's load.
func (n NameLoad) with(more NameLoad) NameLoad {
	if more.PerSecond != nil {
		n.PerSecond = new(n.rate() + *more.PerSecond)
	}
	if more.Share != nil {
		n.Share = &pgstore.Share{
			Dead: n.dead() + more.Share.Dead, Oldest: max(n.oldest(), more.Share.Oldest), Unknown: more.Share.Unknown && n.oldest() == 0,
		}
	}
	return n
}
