package inbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/message"
)

// errEnded is the reason of a dead message whose handler never came back.
var errEnded = errors.New("the process ended each time that the handler ran")

// hopeless reports whether a handler ended its process too often to be begun again.
func (i *Inbox) hopeless(attempts int) bool {
	return i.cfg.MaxAttempts != NoLimit && attempts >= i.cfg.MaxAttempts
}

// ends counts a message's handlers that did not come back, from its beginnings and its other failures. Behind the limit no handler runs: a
// process that marked the message and ended, ended over something else.
func (i *Inbox) ends(begun, attempts int) int {
	if i.cfg.MaxAttempts == NoLimit {
		return begun - 1
	}
	return min(begun-1, max(0, i.cfg.MaxAttempts-attempts))
}

// beAlone waits until no other suspect message is in flight. A message is marked as begun only under it: else another's end of the process
// counts for both.
func (i *Inbox) beAlone(ctx context.Context) (leave func(), err error) {
	select {
	case i.alone <- struct{}{}:
		return func() { <-i.alone }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// tryAlone is beAlone without waiting.
func (i *Inbox) tryAlone() (leave func(), is bool) {
	select {
	case i.alone <- struct{}{}:
		return func() { <-i.alone }, true
	default:
		return func() {}, false
	}
}

// dealAlone deals with a suspect message, which may have ended a reader. It marks it first, for the next reader.
func (r *reader) dealAlone(ctx context.Context, l *lane, m message.Message) error {
	leave, err := r.box.beAlone(ctx)
	if err != nil {
		return err
	}
	defer leave()
	b := r.batch(l)
	var tries int
	err = r.box.sql.Begin.Row(ctx, r.box.db, pg.Args{
		"consumer": r.box.cfg.Name, "lane": l.number, "reader": r.id, "epoch": l.epoch, "sequence": int64(m.StreamSequence), "known": int64(l.known),
	}).Scan(&tries)
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("%w: lane %d, epoch %d", ErrFenced, l.number, l.epoch)
	}
	if err != nil {
		return fmt.Errorf("inbox: mark a message as begun: %w", err)
	}
	b.ended = r.box.ends(tries, 0)
	if b.ended > 0 {
		r.box.reportEnded(ctx, m, b.ended)
	}
	if r.box.hopeless(b.ended) {
		return b.blame(ctx, m, b.park(ctx, m, Final(errEnded), b.ended))
	}
	return b.run(ctx, []message.Message{m})
}

// reportEnded logs that a handler did not come back.
func (i *Inbox) reportEnded(ctx context.Context, m message.Message, attempts int) {
	i.metrics.ended.Inc()
	i.cfg.Logger.ErrorContext(ctx, "the process ended while the handler ran", "consumer", i.cfg.Name, "stream", m.Stream,
		"version", m.Version, "event_id", m.EventID, "attempts", attempts)
}
