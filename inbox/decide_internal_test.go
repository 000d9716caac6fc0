package inbox

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/message"
)

// The table of the package's documentation as Go: what inbox_decide is compared with.

// known is what the table asks of one stream.
type known struct {
	last    message.Message // version 0: none
	events  map[int64]uuid.UUID
	parked  map[slot]bool // under the text of an event and its version
	blocked bool
}

func (k *known) decide(byIDs, itsTurn bool, m message.Message) decision {
	event, recorded := k.events[m.Version]
	d := decision{findings: k.oddities(m), last: k.last.Version}
	switch s := k.last; {
	case recorded && event == m.EventID, !recorded && m.Version == s.Version && m.EventID == s.EventID: // rows 1 and 2
		d.verdict, d.findings = answerIt, d.findings&LowerEpoch
	case !itsTurn && k.parked[slot{m.EventID.String(), m.Version}]: // row 3
		d.verdict = keepParked
	case recorded, m.Version == s.Version: // row 4
		d.verdict, d.findings = buryIt, d.findings|Conflict
	case m.Version < s.Version && !byIDs: // row 5
		d.verdict = refuseIt
	case k.blocked && !itsTurn: // row 6
		d.verdict = parkIt
	default: // rows 7 to 9
		d.verdict = runIt
		if d.findings.Has(Gap) {
			d.missing = m.Version - s.Version - 1
		}
	}
	return d
}

func (k *known) oddities(m message.Message) (f Finding) {
	s := k.last
	if m.Version-1 > s.Version {
		f |= Gap
	}
	if s.Version == 0 {
		return f
	}
	if m.Version < s.Version || m.Generation == s.Generation && m.Sequence < s.Sequence {
		f |= Reversal
	}
	if m.Generation < s.Generation {
		f |= LowerGeneration
	}
	if m.Partition == s.Partition && m.Generation == s.Generation && m.Epoch > 0 && m.Epoch < s.Epoch {
		f |= LowerEpoch
	}
	return f
}

// carryOut is what the stream is known for behind the message.
func (k *known) carryOut(d decision, m message.Message) {
	switch d.verdict {
	case runIt:
		k.events[m.Version] = m.EventID
		if m.Version > k.last.Version {
			k.last = m
		}
	case parkIt, buryIt:
		k.parked[slot{m.EventID.String(), m.Version}], k.blocked = true, true
	}
}

// anyMessage is one of few streams, versions and events, so that all rows come often. Now and then its version is the largest.
func anyMessage(r *rand.Rand) message.Message {
	version := 1 + r.Int64N(8)
	if r.IntN(500) == 0 {
		version = math.MaxInt64
	}
	stream := fmt.Sprint("s", r.IntN(3))
	return message.Message{
		EventID: uuid.NewSHA1(uuid.Nil, fmt.Appendf(nil, "%s/%d/%d", stream, version, r.IntN(5)/4)), Stream: stream, Version: version, Type: "t",
		Sequence: 100*version + r.Int64N(300), Partition: r.IntN(2), Generation: r.IntN(10) / 9, Epoch: r.Int64N(3),
	}
}

// compared is a database with its oracle.
type compared struct {
	box  *Inbox
	tx   pgx.Tx
	know map[string]*known
	seen map[string]int // how often each verdict with its findings came
}

// deal decides about the messages in one call, compares, and stores what was decided.
func (c *compared) deal(t *testing.T, itsTurn bool, messages []message.Message) {
	t.Helper()
	got := make([]decision, len(messages))
	rows, err := c.box.sql.Decide.Rows(t.Context(), c.tx, c.box.decideArgs(columnsOf(messages), itsTurn))
	if err == nil {
		err = readDecisions(rows, got)
	}
	if err != nil {
		t.Fatal(err)
	}
	transaction := newTransaction(c.box, c.tx)
	for n, m := range messages {
		k := c.know[m.Stream]
		if k == nil {
			k = &known{events: map[int64]uuid.UUID{}, parked: map[slot]bool{}}
			c.know[m.Stream] = k
		}
		want := k.decide(c.box.cfg.Order == OrderIDs, itsTurn, m)
		g := got[n]
		if g.verdict != want.verdict || g.findings != want.findings || g.missing != want.missing || g.last != want.last {
			t.Fatalf("message %d of %d, its turn %t: %+v is %s with %q, %d missing behind %d; want %s with %q, %d, %d\nknown: %+v",
				n, len(messages), itsTurn, m, g.verdict, g.findings, g.missing, g.last, want.verdict, want.findings, want.missing, want.last, k)
		}
		c.seen[fmt.Sprintf("%s %s", g.verdict, g.findings)]++
		if itsTurn && g.verdict == buryIt {
			continue // it stays where it is
		}
		k.carryOut(want, m)
		switch o := (Outcome{Status: Waiting}); g.verdict {
		case runIt:
			transaction.record(g.key, m, []byte(m.EventID.String()))
		case parkIt, buryIt:
			if err := transaction.park(g, m, o, 0); err != nil {
				t.Fatal(err)
			}
		case answerIt:
			if _, here := transaction.at[slot{m.Stream, m.Version}]; !here && g.result != nil && string(g.result) != m.EventID.String() {
				t.Fatalf("the result of %s is %s", m.EventID, g.result)
			}
		}
	}
	if err := transaction.settle(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
}

// change forgets records that are past the retention, or lets a stream go on.
func (c *compared) change(t *testing.T, r *rand.Rand) {
	t.Helper()
	run := func(sql string, args ...any) {
		if _, err := c.tx.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range c.know {
			if !yield(name) {
				return
			}
		}
	}) {
		switch k := c.know[name]; r.IntN(12) {
		case 0:
			clear(k.events)
			run(`DELETE FROM inbox_records WHERE stream_key = (SELECT stream_key FROM inbox_streams WHERE stream = $1)`, name)
		case 1, 2, 3:
			clear(k.parked)
			k.blocked = false
			run(`DELETE FROM inbox_parked WHERE stream_key = (SELECT stream_key FROM inbox_streams WHERE stream = $1)`, name)
			run(`UPDATE inbox_streams SET blocked = false WHERE stream = $1`, name)
		case 4:
			k.last = message.Message{Partition: -1}
			clear(k.events)
			run(`DELETE FROM inbox_records WHERE stream_key = (SELECT stream_key FROM inbox_streams WHERE stream = $1)`, name)
			run(`UPDATE inbox_streams SET version = 0, event_id = NULL, generation = 0, partition = -1, sequence = 0, epoch = 0 WHERE stream = $1`, name)
		}
	}
}

// inbox_decide is the table, row by row, for one message and for many, in any order: thousands of generated messages, what
// is recorded and parked growing with what was decided.
func TestTheFunctionDecidesAsTheTableSays(t *testing.T) {
	t.Parallel()
	for name, order := range map[string]Order{"versions": OrderVersions, "ids": OrderIDs} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Pool(t, pgtest.URL(t))
			if err := Migrate(t.Context(), pool, "public"); err != nil {
				t.Fatal(err)
			}
			box, err := New(pool, Config{Name: name, Order: order})
			if err != nil {
				t.Fatal(err)
			}
			seen := map[string]int{}
			r := rand.New(rand.NewPCG(18, 5))
			for range 10 {
				err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					c := &compared{box: box, tx: tx, know: map[string]*known{}, seen: seen}
					for range 60 {
						messages := make([]message.Message, []int{1, 1, 3, 12}[r.IntN(4)])
						for n := range messages {
							messages[n] = anyMessage(r)
						}
						c.deal(t, len(messages) == 1 && r.IntN(2) == 0, messages)
						c.change(t, r)
					}
					_, err := tx.Exec(t.Context(), `TRUNCATE inbox_streams, inbox_records, inbox_parked`)
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			// Every row of the table must have come, and each finding with it that can.
			wanted := []string{
				"run ", "run gap", "run gap,reversal", "run lower_epoch", "run gap,lower_generation", "repeat ", "repeat lower_epoch", "waiting ",
				"conflict conflict", "conflict reversal,conflict", "park ", "park gap",
			}
			if order == OrderIDs {
				wanted = append(wanted, "run reversal", "park reversal")
			} else {
				wanted = append(wanted, "outdated reversal", "outdated reversal,lower_generation")
			}
			for _, what := range wanted {
				if seen[what] == 0 {
					t.Errorf("%q never came: %v", what, seen)
				}
			}
		})
	}
}
