package inbox

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/message"
)

// slot is an event's place.
type slot struct {
	stream  string
	version int64
}

// place is a slot with the event that is in it.
type place struct {
	slot
	eventID uuid.UUID
}

// transaction is what one transaction knows and has to write.
type transaction struct {
	box     *Inbox
	tx      pgx.Tx
	streams map[string]*stream
	records map[slot]record
	parked  map[place]bool

	added []added
}

// added is a record to be written.
type added struct {
	key    int64
	m      message.Message
	result []byte
}

func newTransaction(box *Inbox, tx pgx.Tx) *transaction {
	return &transaction{box: box, tx: tx, streams: map[string]*stream{}, records: map[slot]record{}, parked: map[place]bool{}}
}

// look compares the fence, locks the streams of the messages and reads what is known, in one round trip.
func (t *transaction) look(ctx context.Context, f *fence, messages []message.Message) error {
	var names, every []string
	versions, ids := make([]int64, len(messages)), make([]uuid.UUID, len(messages))
	for n, m := range messages {
		names = append(names, m.Stream)
		every = append(every, m.Stream)
		versions[n], ids[n] = m.Version, m.EventID
	}
	slices.Sort(names)
	names = slices.Compact(names)

	sql, name := &t.box.sql, t.box.cfg.Name
	fenced := false
	b := &pgx.Batch{}
	sql.Settings.Queue(b, pg.Args{"idle": t.box.idleLimit()})
	if f != nil {
		last := messages[len(messages)-1]
		q := sql.Fence.Queue(b, pg.Args{
			"consumer": name, "lane": f.lane, "reader": f.owner, "epoch": f.epoch,
			"position": int64(last.StreamSequence), "ttl": f.ttl, "time": last.StoredAt.UnixNano(),
		})
		q.Query(func(rows pgx.Rows) error {
			rows.Close()
			fenced = rows.CommandTag().RowsAffected() == 0
			return rows.Err()
		})
	}
	streams := pg.Args{"consumer": name, "streams": names}
	sql.AddStreams.Queue(b, streams)
	sql.LockStreams.Queue(b, streams).Query(t.readStreams)
	sql.FindRecords.Queue(b, pg.Args{"consumer": name, "streams": every, "versions": versions}).Query(t.readRecords)
	sql.FindParked.Queue(b, pg.Args{"consumer": name, "streams": every, "versions": versions, "events": ids}).Query(t.readParked)
	sql.SettingsBack.Queue(b, nil)
	if err := t.tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("inbox: look messages up: %w", missingTables(err))
	}
	if fenced {
		return fmt.Errorf("%w: lane %d, epoch %d", ErrFenced, f.lane, f.epoch)
	}
	return nil
}

func (t *transaction) readStreams(rows pgx.Rows) error {
	var name string
	var id *uuid.UUID
	var s stream
	targets := []any{&name, &s.key, &s.version, &id, &s.generation, &s.partition, &s.sequence, &s.epoch, &s.blocked}
	_, err := pgx.ForEachRow(rows, targets, func() error {
		found := s
		if id != nil {
			found.eventID = *id
		}
		t.streams[name] = &found
		return nil
	})
	return err
}

func (t *transaction) readRecords(rows pgx.Rows) error {
	var at slot
	var id uuid.UUID
	var result []byte
	_, err := pgx.ForEachRow(rows, []any{&at.stream, &at.version, &id, &result}, func() error {
		t.records[at] = record{eventID: id, result: result}
		return nil
	})
	return err
}

func (t *transaction) readParked(rows pgx.Rows) error {
	var at place
	_, err := pgx.ForEachRow(rows, []any{&at.stream, &at.version, &at.eventID}, func() error {
		t.parked[at] = true
		return nil
	})
	return err
}

// known is what decides about the message now, with what this transaction has done.
func (t *transaction) known(m message.Message) known {
	at := slot{m.Stream, m.Version}
	k := known{stream: *t.streams[m.Stream], parked: t.parked[place{at, m.EventID}]}
	if r, ok := t.records[at]; ok {
		k.record = &r
	}
	return k
}

// carryOut does what was decided.
func (t *transaction) carryOut(ctx context.Context, d decision, m message.Message, handle Handler) (Outcome, error) {
	s := t.streams[m.Stream]
	o := Outcome{Findings: d.findings, Missing: d.missing, Last: s.version}
	switch d.verdict {
	case answerIt:
		o.Status, o.Result = Repeat, t.records[slot{m.Stream, m.Version}].result
	case refuseIt:
		o.Status = Outdated
	case keepParked:
		o.Status = Waiting
	case parkIt:
		o.Status = Waiting
		return o, t.park(ctx, m, o, 0)
	case buryIt:
		o.Status, o.Err = Dead, errConflict
		return o, t.park(ctx, m, o, 0)
	case runIt:
		result, err := t.box.call(ctx, t.tx, func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
			m, err := m.Decode() // as late as possible: what is read ahead stays small, and what is damaged is parked as it came
			if err != nil {
				return nil, Final(err)
			}
			return handle(ctx, tx, m)
		})
		if err != nil {
			return Outcome{}, err
		}
		o.Status, o.Result = Applied, result
		t.record(m, result)
	}
	return o, nil
}

// record notes that the message is dealt with.
func (t *transaction) record(m message.Message, result []byte) {
	s := t.streams[m.Stream]
	s.move(m)
	t.records[slot{m.Stream, m.Version}] = record{eventID: m.EventID, result: result}
	t.added = append(t.added, added{key: s.key, m: m, result: result})
}

// park stores a message with its payload; its stream waits from now on.
func (t *transaction) park(ctx context.Context, m message.Message, o Outcome, delay time.Duration) error {
	s := t.streams[m.Stream]
	envelope, err := encodeEnvelope(m)
	if err != nil {
		return err
	}
	var due *time.Duration
	if o.Status == Failed {
		due = &delay
	}
	_, err = t.box.sql.Park.Exec(ctx, t.tx, pg.Args{
		"consumer": t.box.cfg.Name, "key": s.key, "version": m.Version, "event": m.EventID,
		"state": o.Status.String(), "attempts": o.Attempts, "wait": due, "reason": reason(o.Err),
		"subject": m.Subject, "sequence": int64(m.StreamSequence), "envelope": envelope, "payload": notNil(m.Payload),
	})
	if err != nil {
		return fmt.Errorf("inbox: park a message: %w", err)
	}
	t.parked[place{slot{m.Stream, m.Version}, m.EventID}] = true
	s.blocked, s.changed = true, true
	return nil
}

// settle writes records and streams in one round trip.
func (t *transaction) settle(ctx context.Context) error {
	b := &pgx.Batch{}
	if n := len(t.added); n > 0 {
		keys, versions, ids := make([]int64, n), make([]int64, n), make([]uuid.UUID, n)
		generations, results := make([]int32, n), make([][]byte, n)
		for k, a := range t.added {
			keys[k], versions[k], ids[k] = a.key, a.m.Version, a.m.EventID
			generations[k], results[k] = int32(a.m.Generation), a.result
		}
		t.box.sql.AddRecords.Queue(b, pg.Args{
			"keys": keys, "versions": versions, "events": ids, "generations": generations, "results": results,
		})
	}
	var c columns
	for _, s := range t.streams {
		if s.changed {
			c.add(s)
		}
	}
	if len(c.keys) > 0 {
		t.box.sql.SetStreams.Queue(b, pg.Args{
			"keys": c.keys, "versions": c.versions, "events": c.ids, "generations": c.generations,
			"partitions": c.partitions, "sequences": c.sequences, "epochs": c.epochs, "blocked": c.blocked,
		})
	}
	if b.Len() == 0 {
		return nil
	}
	if err := t.tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("inbox: record messages: %w", err)
	}
	return nil
}

// columns are rows of inbox_streams turned on their side.
type columns struct {
	keys, versions, sequences, epochs []int64
	ids                               []*uuid.UUID
	generations, partitions           []int32
	blocked                           []bool
}

func (c *columns) add(s *stream) {
	var id *uuid.UUID
	if s.eventID != uuid.Nil {
		id = &s.eventID
	}
	c.keys, c.versions, c.ids = append(c.keys, s.key), append(c.versions, s.version), append(c.ids, id)
	c.generations, c.partitions = append(c.generations, int32(s.generation)), append(c.partitions, int32(s.partition))
	c.sequences, c.epochs = append(c.sequences, s.sequence), append(c.epochs, s.epoch)
	c.blocked = append(c.blocked, s.blocked)
}

// encodeEnvelope is everything of a message but its payload and its place in JetStream.
func encodeEnvelope(m message.Message) ([]byte, error) {
	m.Payload, m.Subject, m.StreamSequence = nil, "", 0
	text, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("inbox: encode a message: %w", err)
	}
	return text, nil
}

// decodeEnvelope is the message again.
func decodeEnvelope(envelope []byte, subject string, sequence int64, payload []byte) (message.Message, error) {
	var m message.Message
	if err := json.Unmarshal(envelope, &m); err != nil {
		return message.Message{}, fmt.Errorf("inbox: decode a parked message: %w", err)
	}
	m.Subject, m.StreamSequence, m.Payload = subject, uint64(sequence), payload
	return m, nil
}

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
