package measure

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Names of values. Those of a drain are per event published; "processor" is the time that it was used.
const (
	ValueRate          = "events_per_second"
	ValueRelay         = "relay_us_per_event"
	ValuePostgres      = "postgres_us_per_event"
	ValueNATS          = "nats_us_per_event"
	ValueAllocations   = "relay_allocations_per_event"
	ValueMemory        = "relay_peak_mib"
	ValueReached       = "share_of_rate"
	ValueP50           = "p50_ms"
	ValueP99           = "p99_ms"
	ValueP999          = "p999_ms"
	ValueMax           = "max_ms"
	ValueDueP50        = "due_to_receipt_p50_ms"
	ValueDueP99        = "due_to_receipt_p99_ms"
	ValueWritersP50    = "earlier_writers_p50_ms"
	ValueWritersP99    = "earlier_writers_p99_ms"
	ValueRelayShare    = "relay_core_percent"
	ValuePostgresShare = "postgres_core_percent"
	ValueNATSShare     = "nats_core_percent"
	ValueTransactions  = "transactions_per_second"
	ValueWAL           = "wal_bytes_per_transaction"
	ValueSender        = "log_sender_us_per_transaction"
)

// Sample is the result of one case in one round.
type Sample struct {
	Values map[string]float64 `json:"values"`
	// Events were checked one by one.
	Events int `json:"events"`
	// Foreign is the share of all processors that others used, 0 to 1; Disturbed says that it was above the limit.
	Foreign   float64 `json:"foreign"`
	Disturbed bool    `json:"disturbed"`
	// Repeated counts the repetitions of the round.
	Repeated int `json:"repeated"`
}

// Spread is a median with its least and greatest value.
type Spread struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

// CaseResult is a case with all of its rounds.
type CaseResult struct {
	Name    string            `json:"name"`
	Base    string            `json:"base,omitempty"`
	Values  map[string]Spread `json:"values"`
	Samples []Sample          `json:"rounds"`
	// Ratios are the values over those of the base in the same round.
	Ratios map[string]Spread `json:"ratios,omitempty"`
	// Disturbed counts the rounds kept although others used more of the machine than allowed.
	Disturbed int `json:"disturbed"`
}

// Result is a scenario's.
type Result struct {
	Scenario string        `json:"scenario"`
	About    string        `json:"about"`
	Main     string        `json:"main"` // the most important value
	Unit     string        `json:"unit"`
	Cases    []*CaseResult `json:"cases"`
}

// Report holds all results.
type Report struct {
	Version    string    `json:"version"` // of the program under test
	Started    time.Time `json:"started"`
	Ended      time.Time `json:"ended"`
	Machine    string    `json:"machine"`
	Processors int       `json:"processors"`
	Events     int       `json:"events"`
	Payload    int       `json:"payload_bytes"`
	Partitions int       `json:"partitions"`
	Rounds     int       `json:"rounds"`
	Quick      bool      `json:"quick"`
	Results    []*Result `json:"results"`
}

// conclude reduces rounds to medians.
func (r *Result) conclude() {
	byName := map[string]*CaseResult{}
	for _, c := range r.Cases {
		byName[c.Name] = c
	}
	for _, c := range r.Cases {
		c.Values = spreads(c.Samples, nil)
		for _, s := range c.Samples {
			if s.Disturbed {
				c.Disturbed++
			}
		}
		if base := byName[c.Base]; base != nil {
			c.Ratios = spreads(c.Samples, base.Samples)
		}
	}
}

// spreads returns the spread of each value over the rounds, or of its ratio to the same round of a base.
func spreads(samples, bases []Sample) map[string]Spread {
	values := map[string][]float64{}
	for i, s := range samples {
		for name, v := range s.Values {
			switch {
			case bases == nil:
				values[name] = append(values[name], v)
			case i < len(bases) && bases[i].Values[name] > 0:
				values[name] = append(values[name], v/bases[i].Values[name])
			}
		}
	}
	all := map[string]Spread{}
	for name, list := range values {
		all[name] = spreadOf(list)
	}
	return all
}

func spreadOf(list []float64) Spread {
	slices.Sort(list)
	middle := len(list) / 2
	s := Spread{Median: list[middle], Least: list[0], Most: list[len(list)-1]}
	if len(list)%2 == 0 {
		s.Median = (list[middle-1] + list[middle]) / 2
	}
	return s
}

// Columns are the names of a scenario's values, the main one first.
func (r *Result) Columns() []string {
	known := map[string]bool{}
	for _, c := range r.Cases {
		for name := range c.Values {
			known[name] = true
		}
	}
	order := []string{
		r.Main, ValueRate, ValueReached, ValueP50, ValueP99, ValueP999, ValueMax, ValueDueP50, ValueDueP99, ValueWritersP50, ValueWritersP99,
		ValueTransactions, ValueWAL, ValueSender,
		ValueRelay, ValuePostgres, ValueNATS, ValueAllocations, ValueMemory, ValueRelayShare, ValuePostgresShare, ValueNATSShare,
	}
	place := func(name string) int {
		if i := slices.Index(order, name); i >= 0 {
			return i
		}
		return len(order)
	}
	return slices.SortedFunc(maps.Keys(known), func(a, b string) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a, b))
	})
}
