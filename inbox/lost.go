package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/pg"
)

// mark is a place in the JetStream stream: the sequence of a message and when JetStream stored it, in nanoseconds since
// 1970. A stream that lost its end gives its sequences again, but at other times.
type mark struct {
	sequence uint64
	at       int64 // 0 where unknown
}

// later is the further of two marks.
func later(a, b mark) mark {
	if b.sequence > a.sequence {
		return b
	}
	return a
}

const (
	// lostMargin allows for a server whose clock is behind after it started again.
	lostMargin = time.Minute
	// lostPatience is how long a server may take to hand over a message that it counted.
	lostPatience = 15 * time.Second
)

// furthest is the mark up to which the consumer has read, zero for a new one.
func (c *Consumer) furthest(ctx context.Context) (mark, error) {
	var position int64
	var m mark
	err := c.box.sql.Furthest.Row(ctx, c.box.db, pg.Args{"consumer": c.box.cfg.Name}).Scan(&position, &m.at)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return mark{}, fmt.Errorf("inbox: prepare consumer %s: %w", c.box.cfg.Name, missingTables(err))
	}
	m.sequence = uint64(position)
	return m, nil
}

// lost tells whether the stream does not hold the message that was read there; what was removed on purpose is not lost.
func lost(ctx context.Context, stream jetstream.Stream, m mark) (bool, error) {
	state := stream.CachedInfo().State
	switch {
	case m.sequence == 0 || m.sequence < state.FirstSeq:
		return false, nil
	case m.sequence > state.LastSeq:
		return true, nil
	case m.at == 0:
		return false, nil
	}
	msg, err := stream.GetMsg(ctx, m.sequence)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read message %d of the stream: %w", m.sequence, err)
	}
	return msg.Time.UnixNano() != m.at, nil
}

// since finds the position behind which everything lies that the stream stored after a time.
func (c *Consumer) since(ctx context.Context, at int64, last uint64) (uint64, error) {
	if at == 0 {
		return 0, nil // from the beginning
	}
	start := time.Unix(0, at).Add(-lostMargin)
	consumer, err := c.js.OrderedConsumer(ctx, c.cfg.Stream, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{c.cfg.Filter}, DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &start,
	})
	if err != nil {
		return 0, fmt.Errorf("read stream %s: %w", c.cfg.Stream, err)
	}
	// Silence proves nothing, it may be a slow server's: what is stored is counted.
	if consumer.CachedInfo().NumPending == 0 {
		return last, nil // nothing came since
	}
	msg, err := consumer.Next(jetstream.FetchMaxWait(lostPatience))
	if err != nil {
		return 0, fmt.Errorf("read stream %s: %w", c.cfg.Stream, err)
	}
	meta, err := msg.Metadata()
	if err != nil {
		return 0, fmt.Errorf("read stream %s: %w", c.cfg.Stream, err)
	}
	return meta.Sequence.Stream - 1, nil
}

// rewind takes all lanes back to what the stream stored after the mark.
func (c *Consumer) rewind(ctx context.Context, tx pgx.Tx, m mark, last uint64) error {
	position, err := c.since(ctx, m.at, last)
	if err != nil {
		return err
	}
	args := pg.Args{"consumer": c.box.cfg.Name, "position": int64(position)}
	if _, err := c.box.sql.Rewind.Exec(ctx, tx, args); err != nil {
		return fmt.Errorf("inbox: rewind consumer %s: %w", c.box.cfg.Name, err)
	}
	c.box.cfg.Logger.ErrorContext(ctx, "the stream has lost messages that were read: reading again what it stored since",
		"consumer", c.box.cfg.Name, "stream", c.cfg.Stream, "from", position+1, "to", m.sequence)
	return nil
}
