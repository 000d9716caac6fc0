package measure

import (
	"context"
	"fmt"
	"time"

	"github.com/postrider/postrider/internal/ledger"
)

// Scenario is a group of cases measured in turns.
type Scenario struct {
	Name  string
	About string

	main, unit string
	cases      func(Config) []Case
}

// Case is one thing to measure.
type Case struct {
	Name string
	// Base is the case of the same round that divides its values; "" for none.
	Base string

	relay bool // it is about the product, not about a null relay or the servers
	run   func(context.Context, *Bench) (Sample, error)
}

// against adds to each case of the relay the same case with another build of it.
func against(cases []Case) []Case {
	var all []Case
	for _, c := range cases {
		all = append(all, c)
		if !c.relay {
			continue
		}
		run := c.run
		all = append(all, Case{Name: c.Name + ", other build", Base: c.Name, run: func(ctx context.Context, b *Bench) (Sample, error) {
			b.tested = b.cfg.Against
			defer func() { b.tested = b.cfg.Program }()
			return run(ctx, b)
		}})
	}
	return all
}

// Scenarios returns all scenarios, in the order in which they run.
func Scenarios() []Scenario {
	return []Scenario{
		{"drain", "publish a backlog: null relays, and the relay in batches and one by one, by partition and by stream, on one server", ValueRate, "events/s", drainCases},
		{"replicated", "publish a backlog to a stream with three replicas", ValueRate, "events/s", replicatedCases},
		{"sync", "publish a backlog to a stream that forces every write to disk (sync_interval: always)", ValueRate, "events/s", syncCases},
		{"payload", "publish a backlog of bytea and jsonb, 500 bytes and 2 kB", ValueRate, "events/s", payloadCases},
		{"steady", "commit to receipt at a steady rate", ValueP99, "ms", steadyCases},
		{"idle", "what it costs when nothing happens", ValuePostgresShare, "% of a core", idleCases},
		{"growth", "publish from a backlog of 10,000 to 10 million", ValuePostgres, "µs/event", growthCases},
		{"partitions", "publish a backlog in 16 to 1,024 partitions", ValuePostgres, "µs/event", partitionCases},
		{"workers", "publish a backlog with 1 to 8 worker processes", ValueRate, "events/s", workerCases},
		{"snapshot", "publish while an old snapshot keeps vacuum from removing 800,000 dead rows", ValueRate, "events/s", snapshotCases},
		{"producers", "what the outbox row costs a producer", ValueTransactions, "tx/s", producerCases},
		// The last: their server writes a larger log.
		{"bell", "commit to receipt where producers do not ring: by polls, and by the bell from PostgreSQL's log", ValueP99, "ms", bellCases},
		{"bell-cost", "what the bell from PostgreSQL's log costs those who write", ValueTransactions, "tx/s", bellCostCases},
	}
}

// The cases that are bases.
const (
	nullPipelined = "null relay, pipelined with message ids"
	nullAtomic    = "null relay, atomic batches"
)

func (c Config) shape() shape {
	return shape{partitions: c.Partitions, payload: c.Payload, events: c.Events}
}

func caseOf(name, base string, d drain) Case {
	return Case{Name: name, Base: base, relay: d.relay != nil, run: d.run}
}

// ways returns both ways to store messages, each with its null relay.
func ways(s shape, on brokerShape, suffix string) []Case {
	relay, single := &relayShape{order: ledger.ByPartition}, on
	single.oneByOne = true
	return []Case{
		caseOf(nullAtomic+suffix, "", drain{shape: s, broker: on, atomic: true}),
		caseOf("postrider, by partition"+suffix, nullAtomic+suffix, drain{shape: s, broker: on, relay: relay}),
		caseOf(nullPipelined+suffix, "", drain{shape: s, broker: single}),
		caseOf("postrider one by one, by partition"+suffix, nullPipelined+suffix, drain{shape: s, broker: single, relay: relay}),
	}
}

func byStream(s shape, on brokerShape, suffix string) []Case {
	relay, single := &relayShape{order: ledger.ByStream}, on
	single.oneByOne = true
	return []Case{
		caseOf("postrider, by stream"+suffix, nullAtomic+suffix, drain{shape: s, broker: on, relay: relay}),
		caseOf("postrider one by one, by stream"+suffix, nullPipelined+suffix, drain{shape: s, broker: single, relay: relay}),
	}
}

func drainCases(c Config) []Case {
	return append(ways(c.shape(), brokerShape{replicas: 1}, ""), byStream(c.shape(), brokerShape{replicas: 1}, "")...)
}

func replicatedCases(c Config) []Case {
	return append(ways(c.shape(), brokerShape{replicas: 3}, ""), byStream(c.shape(), brokerShape{replicas: 3}, "")...)
}

// syncCases: without batches every message waits for the disk, so that drain is a tenth.
func syncCases(c Config) []Case {
	on := brokerShape{replicas: 1, sync: true}
	all := ways(c.shape(), on, "")
	few := c.shape()
	few.events = max(64, c.Events/10)
	return append(all[:2:2], ways(few, on, "")[2:]...)
}

func payloadCases(c Config) []Case {
	var cases []Case
	for _, bytes := range []int{500, 2000} {
		for _, json := range []bool{false, true} {
			kind := "bytea"
			if json {
				kind = "jsonb"
			}
			s := c.shape()
			s.payload, s.json = bytes, json
			suffix := fmt.Sprintf(", %d B %s", bytes, kind)
			cases = append(cases, ways(s, brokerShape{replicas: 1}, suffix)...)
			cases = append(cases, byStream(s, brokerShape{replicas: 1}, suffix)...)
		}
	}
	return cases
}

// growthCases publish at most a million events each.
func growthCases(c Config) []Case {
	sizes := []int{10_000, 100_000, 1_000_000, 10_000_000}
	most := 1_000_000
	if c.Quick {
		sizes, most = []int{3000, 10_000}, 4000 // fewer may take no tick of the processors' clock
	}
	base := ""
	var cases []Case
	for _, n := range sizes {
		s := c.shape()
		s.events = n
		d := drain{shape: s, broker: brokerShape{replicas: 1}, relay: &relayShape{order: ledger.ByPartition}}
		if n > most {
			d.most = most
		}
		name := fmt.Sprintf("postrider, %d pending", n)
		cases = append(cases, caseOf(name, base, d))
		if n == 100_000 || c.Quick && base == "" {
			base = name
		}
	}
	return cases
}

func partitionCases(c Config) []Case {
	counts := []int{64, 16, 256, 1024}
	if c.Quick {
		counts = []int{8, 4, 64}
	}
	name := func(n int) string { return fmt.Sprintf("postrider, %d partitions", n) }
	var cases []Case
	for i, n := range counts {
		s := c.shape()
		s.partitions = n
		base := name(counts[0])
		if i == 0 {
			base = ""
		}
		cases = append(cases, caseOf(name(n), base,
			drain{shape: s, broker: brokerShape{replicas: 1}, relay: &relayShape{order: ledger.ByPartition}}))
	}
	return cases
}

func workerCases(c Config) []Case {
	counts := []int{1, 2, 4, 8}
	if c.Quick {
		counts = []int{1, 2}
	}
	name := func(n int) string { return fmt.Sprintf("postrider, %d worker processes", n) }
	var cases []Case
	for i, n := range counts {
		base := name(counts[0])
		if i == 0 {
			base = ""
		}
		cases = append(cases, caseOf(name(n), base, drain{
			shape: c.shape(), broker: brokerShape{replicas: 1}, relay: &relayShape{order: ledger.ByPartition, workers: n},
		}))
	}
	return cases
}

// warmUp returns the time that a steady case runs before its measurement.
func (c Config) warmUp() time.Duration { return min(2*time.Second, c.Duration/2) }
