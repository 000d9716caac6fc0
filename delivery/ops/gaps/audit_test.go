package gaps_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/ops/gaps"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/partition"
)

// audited is an auditor, and what it said.
type audited struct {
	*gaps.Auditor
	b      *bundle
	alarms []string
	log    bytes.Buffer
	unfit  error
}

func (b *bundle) auditor(t *testing.T, republish bool) *audited {
	t.Helper()
	a := &audited{b: b}
	a.Auditor = gaps.NewAuditor(b.store, b.stream, gaps.AuditConfig{
		Every: 10 * time.Second, Republish: republish, Name: streams.DefaultStream, Registerer: prometheus.NewRegistry(),
		Leads: t.Context, Unfit: func(context.Context) error { return a.unfit }, Alarm: func(err error) { a.alarms = append(a.alarms, err.Error()) },
		Logger: slog.New(slog.NewTextHandler(&a.log, nil)),
	})
	return a
}

// wants audits once; so many must be missing, so many queued, and so many alarms be there by then.
func (a *audited) wants(t *testing.T, missing, queued, alarms int) certificate {
	t.Helper()
	if _, err := a.Audit(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := a.b.certificate(t)
	if c.Missing != missing || c.Queued != queued || len(a.alarms) != alarms {
		t.Errorf("the audit missed %d and queued %d, with %d alarms by now; want %d, %d, %d: %q", c.Missing, c.Queued, len(a.alarms), missing, queued, alarms, a.alarms)
	}
	if loud := strings.Count(a.log.String(), "THE STREAM HAS LOST ACKNOWLEDGED MESSAGES"); loud != alarms {
		t.Errorf("%d errors in the log, want %d", loud, alarms)
	}
	return c
}

type certificate struct {
	First, Last                        uint64
	Messages, History, Missing, Queued int
	Notes                              []string
	Partitions                         []struct {
		Partition partition.ID `json:"partition_key"`
		Count     int
		Hash      string
	}
}

// certificate is the last one.
func (b *bundle) certificate(t *testing.T) (c certificate) {
	t.Helper()
	var text []byte
	if err := b.pool.QueryRow(t.Context(), `SELECT details FROM outbox_audit
		WHERE action = 'stream.audit' AND actor = 'postrider' AND target = '{"stream": "EVENTS"}' ORDER BY id DESC LIMIT 1`).Scan(&text); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// stored is what the stream holds.
func (b *bundle) stored(t *testing.T) (all []gaps.StoredMessage) {
	t.Helper()
	extent, err := b.stream.Extent(t.Context())
	if err == nil {
		err = b.stream.Scan(t.Context(), 1, extent.Last, func(page []gaps.StoredMessage) error {
			all = append(all, page...)
			return nil
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (b *bundle) jetstream(t *testing.T) jetstream.Stream {
	t.Helper()
	stream, err := b.js.Stream(t.Context(), streams.DefaultStream)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// remove deletes the newest messages of events between two sequences, and returns how many.
func (b *bundle) remove(t *testing.T, from, to int64) (n int) {
	t.Helper()
	stream, newest := b.jetstream(t), map[int64]uint64{}
	for _, m := range b.stored(t) {
		if m.Sequence >= from && m.Sequence <= to {
			newest[m.Sequence] = m.Position
		}
	}
	for _, position := range newest {
		if err := stream.DeleteMsg(t.Context(), position); err != nil {
			t.Fatal(err)
		}
	}
	return len(newest)
}

// right compares a certificate with the stream.
func (c certificate) right(t *testing.T, stored []gaps.StoredMessage) {
	t.Helper()
	texts, counts := map[partition.ID][]byte{}, map[partition.ID]int{}
	for _, m := range stored {
		text := binary.BigEndian.AppendUint64(texts[m.Partition], uint64(m.Sequence))
		texts[m.Partition], counts[m.Partition] = binary.BigEndian.AppendUint64(append(text, m.EventID[:]...), m.Position), counts[m.Partition]+1
	}
	if c.Messages != len(stored) || c.First != stored[0].Position || c.Last != stored[len(stored)-1].Position || len(c.Partitions) != len(texts) {
		t.Errorf("the certificate has %d messages of %d partitions from %d to %d", c.Messages, len(c.Partitions), c.First, c.Last)
	}
	for _, p := range c.Partitions {
		if sum := sha256.Sum256(texts[p.Partition]); p.Hash != hex.EncodeToString(sum[:8]) || p.Count != counts[p.Partition] {
			t.Errorf("partition %d has %d messages and the hash %s, want %d, %x", p.Partition, p.Count, p.Hash, counts[p.Partition], sum[:8])
		}
	}
}

// What the stream lost in its middle comes back once, in the order of its streams, with one alarm; when it is lost again, with another.
func TestAnAuditBringsBackTheMiddle(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.append(t, 400)
	b.drain(t)
	a := b.auditor(t, true)
	a.wants(t, 0, 0, 0).right(t, b.stored(t))
	for round := 1; round <= 2; round++ {
		lost := b.remove(t, 100, 160)
		if lost != 57 { // the others are not published
			t.Fatalf("removed %d", lost)
		}
		left := b.stored(t)
		a.wants(t, lost, lost, round).right(t, left)
		a.wants(t, 0, 0, round) // they wait
		b.drain(t)
		a.wants(t, 0, 0, round)
		back := b.stored(t)[len(left):]
		if len(back) != lost {
			t.Fatalf("%d came back, want %d", len(back), lost)
		}
		newest := map[string]int64{}
		for _, m := range back {
			if m.Sequence <= newest[m.Stream] || m.Generation != round {
				t.Errorf("event %d of generation %d came back behind %d in %s", m.Sequence, m.Generation, newest[m.Stream], m.Stream)
			}
			newest[m.Stream] = m.Sequence
		}
	}
}

// Certificates do not pile up: the newest thousand of each stream stay, whoever writes them, and all that operators did.
func TestCertificatesAreSwept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.append(t, 10)
	b.drain(t)
	b.exec(t, `INSERT INTO outbox_audit (actor, action, target, details) SELECT a, c, t, '{}' FROM generate_series(1, 1200) AS n,
		(VALUES ('postrider', 'stream.audit', '{"stream": "EVENTS"}'::jsonb), ('alice', 'messages.skip', '{"stream": "EVENTS"}')) AS v (a, c, t) ORDER BY n`)
	b.exec(t, `INSERT INTO outbox_audit (actor, action, target, details) VALUES ('postrider', 'stream.audit', '{"stream": "OTHER"}', '{}')`)
	role := "relay_" + strings.ToLower(rand.Text())
	b.exec(t, `CREATE ROLE `+role+`; GRANT INSERT ON outbox_audit TO `+role)
	b.exec(t, `BEGIN; SET LOCAL ROLE `+role+`; INSERT INTO outbox_audit (actor, action, target) VALUES ('postrider', 'stream.audit', '{"stream": "EVENTS"}'); COMMIT`)
	b.exec(t, `DROP OWNED BY `+role+`; DROP ROLE `+role)
	if c := b.auditor(t, true).wants(t, 0, 0, 0); c.Messages != 10 {
		t.Errorf("the newest certificate is of %d messages", c.Messages)
	}
	for what, want := range map[string]int{`actor = 'alice'`: 1200, `target ->> 'stream' = 'OTHER'`: 1, `action = 'stream.audit' AND target ->> 'stream' = 'EVENTS'`: 1000} {
		var n int
		if err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM outbox_audit WHERE `+what).Scan(&n); err != nil || n != want {
			t.Errorf("%d rows with %s, want %d: %v", n, what, want, err)
		}
	}
}

// With report nothing is queued, and what is missing is told once.
func TestAnAuditReports(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.append(t, 200)
	b.drain(t)
	a := b.auditor(t, false)
	lost := b.remove(t, 50, 60)
	a.wants(t, lost, 0, 1)
	a.wants(t, lost, 0, 1)
	a.wants(t, lost+b.remove(t, 90, 90), 0, 2)
	if n := b.exec(t, `DELETE FROM outbox`); n != 0 {
		t.Errorf("%d were queued", n)
	}
}

// While the stream does not fit nothing is queued, and the loss is told; it is queued later, without another alarm.
func TestAnAuditQueuesNothingWhereTheStreamDoesNotFit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.append(t, 200)
	b.drain(t)
	a := b.auditor(t, true)
	lost := b.remove(t, 50, 60)
	a.unfit = errors.New("it would drop them again")
	a.wants(t, lost, 0, 1)
	if n := b.exec(t, `UPDATE outbox SET attempts = 0`); n != 0 {
		t.Errorf("%d were queued", n)
	}
	a.unfit = nil
	a.wants(t, lost, lost, 1)
}

// An audit ends with the lease of whoever leads, also in a rest, and begins with the next one.
func TestAnAuditEndsWithItsLeader(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.append(t, 100)
	b.drain(t)
	leads := make(chan context.Context, 1)
	begun := make(chan struct{}, 100)
	b.stream = &meddling{b.stream, 0, func(int) { begun <- struct{}{} }, func(int) {}}
	a := gaps.NewAuditor(b.store, b.stream, gaps.AuditConfig{
		Every: 10 * time.Second, Registerer: prometheus.NewRegistry(), Alarm: func(error) {}, Unfit: func(context.Context) error { return nil },
		Leads: func() context.Context {
			ctx := <-leads
			leads <- ctx
			return ctx
		},
		Logger: slog.New(slog.DiscardHandler),
	})
	first, end := context.WithCancel(t.Context())
	leads <- first
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	<-begun
	<-leads
	leads <- nil
	end()
	<-leads
	leads <- t.Context()
	<-begun
	clustertest.Until(t, "the audit ends", func(ctx context.Context) (whole bool, err error) {
		err = b.pool.QueryRow(ctx, `SELECT count(*) > 0 FROM outbox_audit WHERE action = 'stream.audit'`).Scan(&whole)
		return whole, err
	}, nil)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Losses are queued in the order of sequences, in whatever order batches were marked: the first ones may be published before the last
// are queued.
func TestARepairKeepsTheOrderOfSequences(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.lost = delivery.LostReport
	b.append(t, 6000) // more than are looked at together
	b.drain(t)
	b.exec(t, `ALTER TABLE outbox_deliveries ALTER COLUMN id SET GENERATED BY DEFAULT`)
	b.exec(t, `UPDATE outbox_deliveries SET id = 10000 - id`)
	b.remake(t)
	done, err := b.store.Repair(t.Context(), gaps.Repair{Options: gaps.Options{Kinds: []gaps.GapKind{gaps.NotInStream}}, Actor: "a", Reason: "r"}, b.stream)
	if err != nil || len(done.Queued) != 5700 || !slices.IsSortedFunc(done.Queued, func(a, b gaps.Gap) int { return int(a.Sequence - b.Sequence) }) {
		t.Errorf("queued %d of 5700, or out of order: %v", len(done.Queued), err)
	}
}
