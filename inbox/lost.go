package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/unseen"
)

// mark is a place in the JetStream stream: the sequence of a message and its time of storage, in nanoseconds since 1970. A stream that lost
// its end gives its sequences again, but at other times.
type mark struct {
	sequence uint64
	// at is 0 where unknown. A negative one is a bound: all up to the sequence was stored before -at.
	at int64
}

// later is the further of two marks.
func later(a, b mark) mark {
	if b.sequence > a.sequence {
		return b
	}
	return a
}

// lostMargin allows for a server whose clock is behind a little after it started again.
const lostMargin = time.Minute

// marks reads the lanes' marks. Each counts: in a database that was set back some may be from an earlier state of the stream.
func (c *Consumer) marks(ctx context.Context) (all []mark, err error) {
	all, err = pg.Collect(ctx, c.box.db, c.box.sql.Marks, pg.Args{"consumer": c.box.cfg.Name}, func(row pgx.CollectableRow) (m mark, err error) {
		err = row.Scan(&m.sequence, &m.at)
		return m, err
	})
	if err != nil {
		return nil, fmt.Errorf("inbox: prepare consumer %s: %w", c.box.cfg.Name, withCure(err))
	}
	return all, nil
}

// doubts are the marks that the stream does not hold.
type doubts struct {
	marks    []mark
	earliest mark
	worst    doubt
	// since is the position in front of all messages that the stream stored after the earliest doubted one.
	since mark
}

func (c *Consumer) doubted(ctx context.Context, stream jetstream.Stream, marks []mark) (d doubts, err error) {
	for _, m := range marks {
		is, err := c.lost(ctx, stream.CachedInfo().State, m)
		if err != nil {
			return doubts{}, err
		}
		if is == holds {
			continue
		}
		if len(d.marks) == 0 || max(m.at, -m.at) < max(d.earliest.at, -d.earliest.at) {
			d.earliest = m
		}
		d.marks, d.worst = append(d.marks, m), max(d.worst, is)
	}
	if d.worst != holds && d.worst != early { // no time leads there; from the beginning
		d.since, err = c.since(ctx, d.earliest, stream)
	}
	return d, err
}

type doubt int

const (
	holds   doubt = iota // it holds the message that was read there, or has removed it at its beginning
	unclear              // nothing is there: a message that somebody removed, or a record of a worker in another's place
	gone                 // it has lost that message
	early                // the message in its place is older: the clock that dated the mark was ahead
)

// lost looks for the message that was read at a mark. Workers remove their records, so that an empty place proves nothing.
func (c *Consumer) lost(ctx context.Context, state jetstream.StreamState, m mark) (doubt, error) {
	switch {
	case m.sequence == 0 || m.sequence < state.FirstSeq:
		return holds, nil
	case m.sequence > state.LastSeq:
		return gone, nil
	case m.at == 0:
		return holds, nil
	}
	ask, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	stored, err := unseen.At(ask, c.js, c.cfg.Stream, m.sequence)
	if err != nil {
		return holds, fmt.Errorf("read message %d of the stream: %w", m.sequence, err)
	}
	switch at := stored.UnixNano(); {
	case stored.IsZero():
		return unclear, nil
	case at == m.at || m.at < 0 && at < -m.at:
		return holds, nil
	case m.at < 0: // it may be a record that was there from the first: the position is only that before an event
		return unclear, nil
	case at < m.at:
		return early, nil
	}
	return gone, nil
}

// start returns a time, by the server's clock, before which the server stored nothing after the mark's message. That clock may be behind the
// one that dated the mark: a start later than the server's now is not known.
func (m mark) start(here, server time.Time) (start time.Time, known bool) {
	start = time.Unix(0, -m.at)
	if m.at > 0 {
		start = time.Unix(0, m.at).Add(-lostMargin)
	}
	if behind := here.Sub(server); behind > lostMargin {
		start = start.Add(-behind)
	}
	return start, m.at != 0 && !start.After(server)
}

// since finds the position in front of all messages that the stream stored after a mark's message.
func (c *Consumer) since(ctx context.Context, m mark, stream jetstream.Stream) (mark, error) {
	start, known := m.start(time.Now(), stream.CachedInfo().TimeStamp)
	if !known {
		return mark{}, nil
	}
	consumer, err := c.js.OrderedConsumer(ctx, c.cfg.Stream, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{c.cfg.Filter}, DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &start,
	})
	if err != nil {
		return mark{}, fmt.Errorf("read stream %s: %w", c.cfg.Stream, err)
	}
	// The server counts and finds the place itself: silence proves nothing, and clients keep some messages to themselves.
	info, bound := consumer.CachedInfo(), -start.UnixNano()
	if info.NumPending == 0 {
		return mark{stream.CachedInfo().State.LastSeq, bound}, nil // nothing came since
	}
	return mark{info.Delivered.Stream, bound}, nil
}

// rewind takes the lanes with doubted marks back to since; rewound is false where no row lies behind that. Lanes whose marks the stream holds
// stay: another reader has begun them anew.
func (c *Consumer) rewind(ctx context.Context, tx pgx.Tx, d doubts) (rewound bool, err error) {
	to := d.since
	var positions, times []int64
	for _, m := range d.marks {
		positions, times = append(positions, int64(m.sequence)), append(times, m.at)
	}
	args := pg.Args{"consumer": c.box.cfg.Name, "position": int64(to.sequence), "time": to.at, "positions": positions, "times": times}
	tag, err := c.box.sql.Rewind.Exec(ctx, tx, args)
	if err != nil {
		return false, fmt.Errorf("inbox: rewind consumer %s: %w", c.box.cfg.Name, err)
	}
	if tag.RowsAffected() == 0 { // the rows are no further: a record of a worker may lie in the place of a bound
		return false, nil
	}
	log := c.box.cfg.Logger.With("consumer", c.box.cfg.Name, "stream", c.cfg.Stream, "from", to.sequence+1, "to", d.earliest.sequence)
	if d.worst == unclear {
		log.WarnContext(ctx, "the stream may have lost messages that were read, the last of them is not there: reading again what it stored since")
	} else {
		log.ErrorContext(ctx, "the stream has lost messages that were read: reading again what it stored since")
	}
	return true, nil
}
