package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/shape"
	"github.com/postrider/postrider/partition"
)

// ShadowPublisher takes the messages of one shadow replay.
type ShadowPublisher interface {
	// Publish returns one outcome for each message, in order. It keeps the order of each stream, and a message that the stream holds is not
	// stored again within its duplicate window.
	Publish(ctx context.Context, messages []delivery.Message) []delivery.Outcome
	// Stored returns the stream's messages behind that position of the replay with that generation: the position of each sequence. It may
	// read a part alone, and then returns the end of that; 0: it read all.
	Stored(ctx context.Context, after uint64, generation int) (stored map[int64]uint64, through uint64, err error)
}

// shadowing is a run's knowledge of the stream.
type shadowing struct {
	// asked: the stream was read since the last message without an answer; stored are its messages that no step has noted yet. Until then
	// it was read up to through.
	asked   bool
	through uint64
	stored  map[int64]uint64
}

// shadowStep publishes the next events and notes it when all of them are acknowledged.
func (r *run) shadowStep(ctx context.Context) (step, error) {
	if !r.shadow.asked {
		if err := r.ask(ctx); err != nil || !r.shadow.asked {
			return step{}, err
		}
	}
	messages, upTo, err := r.messages(ctx)
	if errors.Is(err, shape.ErrTransform) {
		return step{waiting: delivery.Reason(err)}, nil
	}
	if err != nil {
		return step{}, err
	}
	m := moved{position: upTo}
	var send []delivery.Message
	for _, msg := range messages {
		at, stored := r.shadow.stored[msg.Sequence]
		switch {
		case stored:
			m.replayed, m.stream = m.replayed+1, max(m.stream, int64(at))
		case msg.Err != nil:
			m.failed, m.lastError = m.failed+1, delivery.Reason(msg.Err)
		case msg.Skip: // the selection has none
			m.failed, m.lastError = m.failed+1, fmt.Sprintf("sequence %d is audit-only", msg.Sequence)
		default:
			send = append(send, msg.Message)
		}
	}
	open, err := r.publish(ctx, send, &m)
	if err != nil {
		return step{}, err
	}
	if open != nil {
		r.shadow.asked = false // the broker's part of it is unknown
		return step{waiting: delivery.Reason(open)}, nil
	}
	err = r.outbox.Write(ctx, func(tx pgx.Tx) error { return r.advance(ctx, tx, m) })
	if err != nil {
		r.shadow.asked = false
		return step{}, err
	}
	for _, msg := range messages {
		delete(r.shadow.stored, msg.Sequence)
	}
	return step{events: int64(len(messages)), finished: upTo >= r.job.Last}, nil
}

// ask reads on in the stream. Others may have used the prefix before, so that this can take long.
func (r *run) ask(ctx context.Context) error {
	if r.shadow.through == 0 {
		r.shadow.through, r.shadow.stored = uint64(max(0, r.job.StreamSequence)), map[int64]uint64{}
	}
	stored, through, err := r.cfg.Publisher.Stored(ctx, r.shadow.through, r.job.Generation)
	if err != nil {
		return fmt.Errorf("ask the stream what it holds of the replay: %w", err)
	}
	maps.Copy(r.shadow.stored, stored)
	if r.shadow.through, r.shadow.asked = through, through == 0; r.shadow.asked {
		return nil
	}
	return r.touch(ctx, "it looks what the stream holds of it")
}

// publish sends the messages that the stream lacks. open is the reason why one has no definite answer.
func (r *run) publish(ctx context.Context, send []delivery.Message, m *moved) (open, err error) {
	if len(send) == 0 {
		return nil, nil // nothing open, nothing wrong
	}
	timed, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for i, o := range r.cfg.Publisher.Publish(timed, send) {
		switch o.Kind {
		case delivery.Published:
			if !o.Duplicate && o.StreamSequence < uint64(max(0, r.job.StreamSequence)) {
				return nil, fmt.Errorf("sequence %d was stored at %d, behind one at %d: %w", send[i].Sequence, o.StreamSequence, r.job.StreamSequence, delivery.ErrStreamForgot)
			}
			m.replayed, m.stream = m.replayed+1, max(m.stream, int64(o.StreamSequence))
		case delivery.Retry, delivery.Permanent, delivery.Skipped:
			m.failed++
			m.lastError = delivery.Reason(fmt.Errorf("sequence %d: %w", send[i].Sequence, o.Err))
		case delivery.Unresolved, delivery.Behind, delivery.Scheduled:
			if errors.Is(o.Err, delivery.ErrConfiguration) {
				return nil, o.Err
			}
			if open == nil {
				open = fmt.Errorf("the broker did not take sequence %d: %w", send[i].Sequence, errors.Join(o.Err, ctx.Err()))
			}
		}
	}
	return open, nil
}

// messages reads the next events of one step as they are to be published.
func (r *run) messages(ctx context.Context) (messages []loop.Reading, upTo int64, err error) {
	var events []event
	var ids []partition.ID
	err = r.outbox.Read(ctx, func(tx pgx.Tx) (err error) {
		if ids, err = r.outbox.Partitions(ctx, tx); err == nil {
			events, upTo, err = r.next(ctx, tx, r.job.Position, r.stepSize())
		}
		return err
	})
	if err != nil || len(events) == 0 {
		return nil, upTo, err
	}
	pointers := make([]delivery.Pointer, len(events))
	for i, e := range events {
		pointers[i] = delivery.Pointer{
			Partition: partition.Of(e.Key, partition.Count(len(ids))), Sequence: e.Sequence, Generation: r.job.Generation, // at most 32767
			Stream: e.Stream, Topic: e.Topic,
		}
	}
	if messages, err = r.cfg.Events.Read(ctx, pointers); err != nil {
		return nil, 0, err
	}
	if len(messages) < len(events) {
		upTo = messages[len(messages)-1].Sequence
	}
	return messages, upTo, nil
}
