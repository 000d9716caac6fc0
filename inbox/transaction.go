package inbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/message"
)

type slot struct {
	stream  string
	version int64
}

// transaction gathers the writes of one transaction.
type transaction struct {
	box *Inbox
	tx  pgx.Tx

	// ran are the messages to record, with their keys and results, each under its place in at.
	ran     []message.Message
	keys    []int64
	results [][]byte
	at      map[slot]int
	// parks are the messages to park.
	parks []pg.Args
}

func newTransaction(box *Inbox, tx pgx.Tx) *transaction {
	return &transaction{box: box, tx: tx, at: map[slot]int{}}
}

// look compares the fence, locks the streams of the messages and decides about each, in one round trip.
func (t *transaction) look(ctx context.Context, f *fence, messages []message.Message) ([]decision, error) {
	sql := &t.box.sql
	fenced := false
	b := &pgx.Batch{}
	sql.LimitIdle.Queue(b, pg.Args{"idle": t.box.idleLimit()})
	if f != nil {
		last := messages[len(messages)-1]
		q := sql.Fence.Queue(b, pg.Args{
			"consumer": t.box.cfg.Name, "lane": f.lane, "reader": f.owner, "epoch": f.epoch,
			"position": int64(last.StreamSequence), "ttl": f.ttl, "time": last.StoredAt.UnixNano(), "known": int64(*f.known),
		})
		q.Query(func(rows pgx.Rows) error {
			rows.Close()
			fenced = rows.CommandTag().RowsAffected() == 0
			return rows.Err()
		})
	}
	decisions := make([]decision, len(messages))
	sql.Decide.Queue(b, t.box.decideArgs(columnsOf(messages), false)).Query(func(rows pgx.Rows) error { return readDecisions(rows, decisions) })
	if err := t.tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("inbox: look messages up: %w", withCure(err))
	}
	if fenced {
		return nil, fmt.Errorf("%w: lane %d, epoch %d", ErrFenced, f.lane, f.epoch)
	}
	return decisions, nil
}

// decode takes the compression off a body, which may become limit bytes long.
func (i *Inbox) decode(m message.Message, limit int) (message.Message, error) {
	plain, err := m.DecodeUpTo(int64(limit))
	if err != nil {
		return m, fmt.Errorf("body (MaxPayload is %d): %w", i.cfg.MaxPayload, err)
	}
	return plain, nil
}

func (t *transaction) carryOut(ctx context.Context, d decision, m message.Message, handle Handler) (Outcome, error) {
	o := Outcome{Findings: d.findings, Missing: d.missing, Last: d.last}
	switch d.verdict {
	case answerIt:
		o.Status, o.Result = Repeat, d.result
		if n, ran := t.at[slot{m.Stream, m.Version}]; ran { // in this transaction
			o.Result = t.results[n]
		}
	case refuseIt:
		o.Status = Outdated
	case keepParked:
		o.Status = Waiting
	case parkIt:
		o.Status = Waiting
		return o, t.park(d, m, o, 0)
	case buryIt:
		o.Status, o.Err = Dead, errConflict
		return o, t.park(d, m, o, 0)
	case runIt:
		result, err := t.box.call(ctx, t.tx, func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
			m, err := t.box.decode(m, t.box.cfg.MaxPayload) // late: messages read ahead stay small, damaged ones are parked as they came
			if err != nil {
				return nil, Final(err)
			}
			return handle(ctx, tx, m)
		})
		if err != nil {
			return Outcome{}, err
		}
		o.Status, o.Result = Applied, result
		t.record(d.key, m, result)
	default:
		return Outcome{}, fmt.Errorf("inbox: inbox_decide says %q, which means nothing here", d.verdict)
	}
	return o, nil
}

// record adds a message that ran.
func (t *transaction) record(key int64, m message.Message, result []byte) {
	t.at[slot{m.Stream, m.Version}] = len(t.ran)
	t.ran, t.keys, t.results = append(t.ran, m), append(t.keys, key), append(t.results, result)
}

// park adds a message to be stored with its payload; its stream waits then.
func (t *transaction) park(d decision, m message.Message, o Outcome, delay time.Duration) error {
	envelope, err := encodeEnvelope(m)
	if err != nil {
		return err
	}
	var due *time.Duration
	if o.Status == Failed {
		due = &delay
	}
	t.parks = append(t.parks, pg.Args{
		"consumer": t.box.cfg.Name, "key": d.key, "version": m.Version, "event": m.EventID,
		"state": o.Status.String(), "attempts": o.Attempts, "wait": due, "reason": reason(o.Err),
		"subject": m.Subject, "sequence": int64(m.StreamSequence), "envelope": envelope, "payload": notNil(m.Payload),
	})
	return nil
}

// settle records the messages that ran, or were given up with a note, and parks the others, in one round trip.
func (t *transaction) settle(ctx context.Context, note *string) error {
	b := &pgx.Batch{}
	if len(t.ran) > 0 {
		c := columnsOf(t.ran)
		t.box.sql.Record.Queue(b, pg.Args{
			"keys": t.keys, "versions": c.versions, "events": c.events, "sequences": c.sequences, "partitions": c.partitions,
			"generations": c.generations, "epochs": c.epochs, "results": t.results, "given_up": note,
		})
	}
	for _, args := range t.parks {
		t.box.sql.Park.Queue(b, args)
	}
	if b.Len() == 0 {
		return nil
	}
	if err := t.tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("inbox: record messages: %w", withCure(err))
	}
	return nil
}

// encodeEnvelope encodes all of a message but its payload and its place in JetStream.
func encodeEnvelope(m message.Message) ([]byte, error) {
	m.Payload, m.Subject, m.StreamSequence, m.RecordedAt = nil, "", 0, m.RecordedAt.UTC() // JSON writes not every zone
	text, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("inbox: encode a message: %w", err)
	}
	return text, nil
}

// errEnvelope: somebody else has written the row.
var errEnvelope = errors.New("a parked message cannot be decoded")

// decodeEnvelope returns the message again.
func decodeEnvelope(envelope []byte, subject string, sequence int64, payload []byte) (message.Message, error) {
	var m message.Message
	if err := json.Unmarshal(envelope, &m); err != nil {
		return message.Message{}, fmt.Errorf("inbox: %w: %w", errEnvelope, err)
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
