package inbox

import (
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/message"
)

// verdict is the fate of a message, in the words of the SQL function inbox_decide (ADR 29).
type verdict string

const (
	runIt      verdict = "run"
	answerIt   verdict = "repeat"   // with the recorded result
	refuseIt   verdict = "outdated" // too old
	parkIt     verdict = "park"     // behind a parked message
	keepParked verdict = "waiting"  // it is parked already
	buryIt     verdict = "conflict" // another event has its place
)

// decision is the answer of inbox_decide for one message: its verdict and findings.
type decision struct {
	// key is that of the stream's row.
	key      int64
	verdict  verdict
	findings Finding
	missing  int64
	// last is the stream's version before.
	last int64
	// result is the recorded one, for a repeat.
	result []byte
}

// readDecisions puts the decisions into the places of their messages.
func readDecisions(rows pgx.Rows, into []decision) error {
	var place int64
	var what string
	var findings int32
	var d decision
	_, err := pgx.ForEachRow(rows, []any{&place, &d.key, &what, &findings, &d.missing, &d.last, &d.result}, func() error {
		d.verdict, d.findings = verdict(what), Finding(findings)
		into[place-1] = d
		return nil
	})
	return err
}

// columns are messages turned on their side, as the SQL functions take them.
type columns struct {
	streams                     []string
	versions, sequences, epochs []int64
	events                      []uuid.UUID
	partitions, generations     []int32
}

func columnsOf(messages []message.Message) columns {
	n := len(messages)
	c := columns{
		streams: make([]string, n), versions: make([]int64, n), sequences: make([]int64, n), epochs: make([]int64, n),
		events: make([]uuid.UUID, n), partitions: make([]int32, n), generations: make([]int32, n),
	}
	for k, m := range messages {
		c.streams[k], c.versions[k], c.sequences[k], c.epochs[k] = m.Stream, m.Version, m.Sequence, m.Epoch
		c.events[k], c.partitions[k], c.generations[k] = m.EventID, int32(m.Partition), int32(m.Generation)
	}
	return c
}

// decideArgs are the arguments of Decide.
func (i *Inbox) decideArgs(c columns, itsTurn bool) pg.Args {
	return pg.Args{
		"consumer": i.cfg.Name, "by_ids": i.cfg.Order == OrderIDs, "its_turn": itsTurn, "streams": c.streams, "versions": c.versions,
		"events": c.events, "sequences": c.sequences, "partitions": c.partitions, "generations": c.generations, "epochs": c.epochs,
	}
}
