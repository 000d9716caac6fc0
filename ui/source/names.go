package source

import (
	"cmp"
	"slices"
	"time"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/pgstore"
)

// MostNames is how many topics, and how many types, are told apart.
const MostNames = 100

// NameLoad is what one topic or one type does.
type NameLoad struct {
	Name string
	// Other says that it stands for all that are not told apart.
	Other bool
	// PerSecond is what was published lately; nil: that is not known.
	PerSecond *float64
	// Share is what the outbox holds; nil: that is not known.
	Share *pgstore.Share
}

// TopicLoads is what each topic does, with these many published a second; nil: that is not known.
func (s Snapshot) TopicLoads(rates map[string]float64) []NameLoad {
	if s.Named == nil {
		return nameLoads(rates, nil)
	}
	return nameLoads(rates, s.Named.ByTopic)
}

// TypeLoads is the same of types.
func (s Snapshot) TypeLoads(rates map[string]float64) []NameLoad {
	if s.Named == nil {
		return nameLoads(rates, nil)
	}
	return nameLoads(rates, s.Named.ByType)
}

// nameLoads joins what is published a second, by topic or by type, with what the outbox holds: those names first of which most is
// published, then those with most dead. Nil rates are not known, nor are nil shares. Beyond MostNames they count as the other ones.
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
			one.Share = &pgstore.Share{Unknown: rest.Unknown} // it is not among the others either
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

// with adds another name's.
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
