package source

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/condition"
)

// Condition is a cause for which workers do not deliver, as API and commands show it.
type Condition struct {
	Reason condition.Reason `json:"reason"`
	// Detail is the error behind the condition, Cure its remedy by a person.
	Detail string    `json:"detail"`
	Cure   string    `json:"cure"`
	Since  time.Time `json:"since"`
	// Workers report the condition; none where the reader found it.
	Workers []uuid.UUID `json:"worker_ids"`
}

// own replaces this process's stored conditions by its present ones: a worker that cannot write cannot report.
func (s *Snapshot) own(self uuid.UUID, conditions []condition.Condition) {
	for i := range conditions {
		conditions[i].Detail = Scrub(conditions[i].Detail)
	}
	s.Own = conditions
	for i, w := range s.Workers {
		if w.ID != self {
			continue
		}
		s.Workers[i].Condition = nil
		if len(conditions) > 0 {
			s.Workers[i].Condition = &conditions[0]
		}
	}
}

// Conditions lists why workers do not deliver, even where no event waits; a condition of the most workers comes first.
func (s Snapshot) Conditions() []Condition {
	list := []Condition{}
	add := func(c condition.Condition, workers ...uuid.UUID) {
		i := slices.IndexFunc(list, func(other Condition) bool { return other.Reason == c.Reason })
		if i < 0 {
			i = len(list)
			list = append(list, Condition{Reason: c.Reason, Detail: Scrub(c.Detail), Cure: c.Reason.Cure(), Since: c.Since.UTC(), Workers: []uuid.UUID{}})
		}
		list[i].Workers = append(list[i].Workers, workers...)
		if c.Since.Before(list[i].Since) {
			list[i].Since = c.Since.UTC()
		}
	}
	for _, w := range s.Workers {
		if w.Condition != nil && w.State != WorkerStale {
			add(*w.Condition, w.ID)
		}
	}
	for _, c := range s.Own {
		add(c)
	}
	if s.ReadOnly {
		add(*s.readOnly())
	}
	slices.SortStableFunc(list, func(a, b Condition) int { return -cmp.Compare(len(a.Workers), len(b.Workers)) })
	return list
}

// Canaries returns the faults of canaries, as their workers report them, without secrets.
func (s Snapshot) Canaries() []string {
	var list []string
	for _, w := range s.Workers {
		if w.Canary != "" && w.State != WorkerStale {
			list = append(list, Scrub(w.Canary))
		}
	}
	return list
}

// hinders returns the condition that stops the partition's delivery: its owner's, or any where nobody owns it.
func (s Snapshot) hinders(p Partition) *condition.Condition {
	if s.ReadOnly {
		return s.readOnly()
	}
	for _, w := range s.Workers {
		if w.Condition != nil && w.State != WorkerStale && (w.ID == p.Owner || !p.Owned()) {
			return w.Condition
		}
	}
	if len(s.Own) > 0 && !p.Owned() {
		return &s.Own[0]
	}
	return nil
}

func (s Snapshot) readOnly() *condition.Condition {
	return &condition.Condition{
		Reason: condition.DatabaseReadOnly, Detail: "the database is read-only: default_transaction_read_only is on", Since: s.At,
	}
}
