package measure

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nuid"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub/wire"
)

// nullSettings are those of a null relay.
type nullSettings struct {
	Database   string `json:"database"`
	NATS       string `json:"nats"`
	Partitions int    `json:"partitions"`
	// Atomic publishes in atomic batches, else messages with ids are pipelined.
	Atomic bool `json:"atomic"`
	// Readers is the number of database connections, each with its partitions.
	Readers int `json:"readers"`
	// Batch bounds the messages of one flight.
	Batch int `json:"batch"`
	// Flights bounds the flights in the air at once, over all readers.
	Flights int `json:"flights"`
	// JSON: the payload is a jsonb column.
	JSON bool `json:"json"`
	// Follow also publishes later commits, until its input ends, and deletes the rows it reads.
	Follow bool `json:"follow"`
}

// nullAnswer is a null relay's line when it is ready, and when it is done.
type nullAnswer struct {
	Ready     bool   `json:"ready"`
	Published int    `json:"published"`
	Mallocs   uint64 `json:"mallocs"`
}

// nullRelay reads, publishes and waits, and keeps no state.
type nullRelay struct {
	nullSettings
	wire    *rawConn
	air     chan struct{} // one for each flight that may be in the air
	readers []*nullReader
}

// nullReader has a connection and some of the partitions.
type nullReader struct {
	*nullRelay
	conn       *pgx.Conn
	partitions []int16
	after      []int64
	buffer     messageBuffer
	next       *flight // that the buffer is for
	published  int
}

func (p *part) runNull(ctx context.Context) (err error) {
	var s nullSettings
	if err := p.settings(&s); err != nil {
		return err
	}
	n := &nullRelay{nullSettings: s, air: make(chan struct{}, s.Flights)}
	if n.wire, err = dialWire(ctx, s.NATS); err != nil {
		return err
	}
	defer n.wire.close() //nolint:errcheck // each message is acknowledged, or lost
	if err := n.connect(ctx); err != nil {
		return err
	}
	defer n.disconnect(ctx)
	if err := p.answer(nullAnswer{Ready: true}); err != nil {
		return err
	}
	if s.Follow {
		following, stop := context.WithCancel(ctx)
		go func() {
			p.told(ctx)
			stop()
		}()
		defer stop()
		return n.follow(following)
	}
	if !p.told(ctx) {
		return nil
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := n.drain(ctx); err != nil {
		return err
	}
	runtime.ReadMemStats(&after)
	published := 0
	for _, r := range n.readers {
		published += r.published
	}
	if err := p.answer(nullAnswer{Published: published, Mallocs: after.Mallocs - before.Mallocs}); err != nil {
		return err
	}
	p.told(ctx)
	return nil
}

// planning keeps the planner on index scans, whatever the tables' statistics.
const planning = `SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_seqscan = off; SET enable_bitmapscan = off;
	SET max_parallel_workers_per_gather = 0; SET plan_cache_mode = force_generic_plan; SET synchronous_commit = off`

func (n *nullRelay) connect(ctx context.Context) error {
	subject, err := wire.ParseSubject(wire.DefaultSubject)
	if err != nil {
		return err
	}
	for i := range n.Readers {
		conn, err := pgx.Connect(ctx, n.Database)
		if err != nil {
			return fmt.Errorf("null relay: %w", err)
		}
		r := &nullReader{nullRelay: n, conn: conn, buffer: messageBuffer{atomic: n.Atomic, json: n.JSON, subject: subject, subjects: map[string]string{}}}
		n.readers = append(n.readers, r)
		for p := i; p < n.Partitions; p += n.Readers {
			r.partitions, r.after = append(r.partitions, int16(p)), append(r.after, 0) // below 32767
		}
		if _, err := conn.Exec(ctx, planning); err != nil {
			return fmt.Errorf("null relay: %w", err)
		}
		if _, err := conn.Prepare(ctx, "read", nullRead); err != nil {
			return fmt.Errorf("null relay: %w", err)
		}
	}
	return nil
}

func (n *nullRelay) disconnect(ctx context.Context) {
	for _, r := range n.readers {
		_ = r.conn.Close(ctx) // no transaction is open
	}
}

// nullRead is fenced by its LIMIT, so that no planner joins from the other side.
const nullRead = `SELECT o.global_sequence, o.partition_key, o.stream_id, o.topic, e.event_id, e.stream_version, e.event_type, e.payload
  FROM (SELECT global_sequence, partition_key, stream_id, topic FROM outbox_ready
         WHERE partition_key = $1 AND global_sequence > $2 ORDER BY global_sequence LIMIT $3) AS o
  JOIN events AS e ON e.sequence = o.global_sequence
 ORDER BY o.global_sequence`

// drain publishes all present rows.
func (n *nullRelay) drain(ctx context.Context) error {
	failed := make(chan error, len(n.readers))
	for _, r := range n.readers {
		go func() { failed <- r.drain(ctx) }()
	}
	var all error
	for range n.readers {
		all = errors.Join(all, <-failed)
	}
	return all
}

// drain reads the next flight while the last one is in the air. A flight holds rows of several partitions, so that it is full.
func (r *nullReader) drain(ctx context.Context) error {
	var aloft *flight
	left := len(r.partitions)
	finished := make([]bool, left)
	for at := 0; left > 0; {
		r.begin()
		for left > 0 && r.buffer.messages < r.Batch {
			want := r.Batch - r.buffer.messages
			if !finished[at] {
				got, err := r.read(ctx, at, want)
				if err != nil {
					return err
				}
				if got < want {
					finished[at] = true
					left--
				}
			}
			at = (at + 1) % len(r.partitions)
		}
		sent, err := r.send(ctx)
		if err == nil && aloft != nil {
			err = aloft.wait(ctx)
		}
		if err != nil {
			return err
		}
		aloft = sent
	}
	if aloft == nil {
		return nil
	}
	return aloft.wait(ctx)
}

// read appends rows of one of the partitions to the buffer.
func (r *nullReader) read(ctx context.Context, at, most int) (int, error) {
	rows, err := r.conn.Query(ctx, "read", pgx.QueryResultFormats{1}, r.partitions[at], r.after[at], most)
	if err != nil {
		return 0, fmt.Errorf("null relay: read: %w", err)
	}
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		r.after[at] = r.buffer.row(rows.RawValues())
	}
	if err := rows.Err(); err != nil {
		return 0, fmt.Errorf("null relay: read: %w", err)
	}
	return n, nil
}

// send writes the buffer out when a flight may start. It returns nil where the buffer is empty.
func (r *nullReader) send(ctx context.Context) (*flight, error) {
	if r.buffer.messages == 0 {
		return nil, nil // nothing to wait for
	}
	select {
	case r.air <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	r.next.left, r.next.air = r.buffer.messages, r.air
	if r.Atomic {
		r.next.left = 1
	}
	r.published += r.buffer.messages
	r.wire.expect(r.next)
	return r.next, r.wire.write(r.buffer.wire())
}

// begin empties the buffer for the next flight.
func (r *nullReader) begin() {
	var reply []byte
	r.next, reply = r.wire.flight()
	r.buffer.reset(reply, nuid.Next()[14:])
}

// subjectOf builds a subject as the relay does, once for each kind of event.
func (m *messageBuffer) subjectOf(topic, kind []byte) string {
	key := string(topic) + "\x00" + string(kind)
	if subject, ok := m.subjects[key]; ok {
		return subject
	}
	subject := m.subject.Of(delivery.Message{Pointer: delivery.Pointer{Topic: string(topic)}, Event: &delivery.Event{Type: string(kind)}})
	m.subjects[key] = subject
	return subject
}

// idText appends a UUID.
func idText(to, raw []byte) []byte {
	text, err := uuid.UUID(raw).MarshalText()
	if err != nil {
		return to // it cannot fail
	}
	return append(to, text...)
}

func decimal(to []byte, n int64) []byte { return strconv.AppendInt(to, n, 10) }
