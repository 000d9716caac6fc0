package natspub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub/wire"
)

// Publish implements delivery.Publisher: one atomic batch of each partition, which others' parts may share, or several when messages are
// refused; or message by message. Messages beyond one batch are left for the next call.
func (f *Fenced) Publish(look []delivery.Batch, done func(int, []delivery.Outcome)) {
	runs, sends := make([]*fencedRun, len(look)), make([][]int, len(look))
	messages, ofOne, tight := 0, 0, false
	for i, b := range look {
		runs[i] = f.run(b)
		sends[i] = runs[i].prepare()
		messages, ofOne, tight = messages+len(sends[i]), max(ofOne, len(sends[i])), tight || runs[i].tight
	}
	step := (*fencedRun).stepByOne
	switch {
	case f.steps():
	case !tight && f.byOne(messages, ofOne):
		defer f.combiner.occupy()()
	default:
		step = (*fencedRun).step
		first := make([]*share, 0, len(look))
		for i, run := range runs {
			if len(sends[i]) > 0 {
				run.first = run.share(sends[i])
				first = append(first, run.first)
			}
		}
		f.combiner.add(first...)
	}
	var publishing sync.WaitGroup
	for i, run := range runs {
		publishing.Go(func() {
			if len(sends[i]) > 0 {
				step(run, run.batch.Lease.Context(), sends[i])
			}
			done(i, run.outcomes)
		})
	}
	publishing.Wait()
}

// run begins the publication of a batch.
func (f *Fenced) run(b delivery.Batch) *fencedRun {
	r := &fencedRun{
		Fenced: f, batch: b, subject: f.cfg.Control.Subject(b.Lease.Partition),
		bodies: make([]wire.Content, len(b.Messages)), outcomes: make([]delivery.Outcome, len(b.Messages)),
		held: map[string]int{},
	}
	if r.session, _ = b.Session.(*session); r.session == nil {
		r.fail(fmt.Errorf("%w: partition %d was not taken", delivery.ErrUnknown, b.Lease.Partition))
	}
	return r
}

// fencedRun is a batch under way.
type fencedRun struct {
	*Fenced
	batch    delivery.Batch
	subject  string
	session  *session
	bodies   []wire.Content
	outcomes []delivery.Outcome
	held     map[string]int // streams of which a message failed: which one
	failed   bool           // nothing more may be sent
	tight    bool           // a message has hardly room for another header
	first    *share         // at the combiner, until it is waited for
	named    part           // by the record of the last attempt
}

// prepare chooses the messages to send, fails those that can never be stored, and returns the chosen indices.
func (r *fencedRun) prepare() []int {
	most := r.roomForRecord(eachRecord)
	send := make([]int, 0, min(len(r.batch.Messages), most))
	size := 0
	for i, m := range r.batch.Messages {
		if r.waits(i) {
			continue
		}
		b := r.build.Body(m)
		bytes := r.build.Bound(m) + len(b.Data) + r.singleHeaderSize()
		if err := r.check(m, b, bytes); err != nil {
			r.refuse(i, delivery.Outcome{Kind: delivery.Permanent, Err: err})
			continue
		}
		if len(send) == most || len(send) > 0 && size+bytes > MaxBatchBytes {
			break
		}
		r.bodies[i] = b
		if len(m.Event.Payload) > wire.LargePayload {
			r.batch.Messages[i].Event = m.Event.WithoutPayload() // the body made of it suffices
		}
		send = append(send, i)
		size += bytes
	}
	return send
}

// waits reports whether a message may not be sent, and gives it its outcome.
func (r *fencedRun) waits(i int) bool {
	if r.failed {
		return true // unresolved, for no fault of its own
	}
	if failed, is := r.held[r.batch.Messages[i].Stream]; is && failed < i {
		r.outcomes[i] = delivery.Outcome{Kind: delivery.Behind}
		return true
	}
	return false
}

// refuse gives a message that failed by its own fault its outcome, and those that must not pass it theirs.
func (r *fencedRun) refuse(i int, o delivery.Outcome) {
	r.outcomes[i] = o
	stream := r.batch.Messages[i].Stream
	if before, is := r.held[stream]; r.batch.Policy != delivery.BehindNone && (!is || i < before) {
		r.held[stream] = i
	}
}

// fail ends the run: messages without an outcome stay unresolved, for that reason.
func (r *fencedRun) fail(err error) {
	r.failed = true
	for i := range r.outcomes {
		if r.outcomes[i].Kind == delivery.Unresolved {
			r.outcomes[i].Err = err
		}
	}
}

// verdict is the result of one batch.
type verdict uint8

const (
	stored  verdict = iota
	refused         // for its content: nothing of it was stored
	given           // up: the run has failed
)

// step stores the messages of those indices in as many batches as it takes. A batch that the stream keeps refusing for its content is
// halved until the refused message is found.
func (r *fencedRun) step(ctx context.Context, indices []int) {
	for len(indices) > 0 {
		sent, v, err := r.store(ctx, indices)
		switch {
		case v == stored || v == given:
		case len(sent) > 1:
			half := len(sent) / 2
			r.step(ctx, sent[:half])
			r.step(ctx, r.sendable(sent[half:]))
		default:
			r.refuse(sent[0], delivery.Outcome{Kind: orRetry(wire.Classify(err).Kind), Err: fmt.Errorf("refused by stream %s: %w", r.cfg.Stream, err)})
		}
		indices = r.sendable(indices[len(sent):])
	}
}

// sendable leaves out what must wait for a message that failed meanwhile.
func (r *fencedRun) sendable(indices []int) []int {
	var list []int
	for _, i := range indices {
		if !r.waits(i) {
			list = append(list, i)
		}
	}
	return list
}

// store sends one batch, of the messages of those indices or of the first ones, until it has a definite answer. It returns those that
// were sent. Every attempt holds the same messages and expects the same last record, so at most one of them can be stored. The first one
// goes together with other partitions' parts, the others by themselves.
func (r *fencedRun) store(ctx context.Context, indices []int) (sent []int, v verdict, err error) {
	s := r.first
	if r.first = nil; s == nil {
		s = r.share(indices)
		r.combiner.add(s) //nolint:contextcheck // a flight carries several shares and outlives each one's context
	}
	var (
		ans      = r.combiner.wait(ctx, s)
		denied   = s.denied
		unknown  bool // an attempt may still be stored
		doubtful = suspicion{run: r}
		deadline = time.Now().Add(2 * r.cfg.AckTimeout)
	)
	if ans.sent > 0 {
		indices = indices[:ans.sent]
	}
	for n := 1; ; n++ {
		if n > 1 {
			if !r.goesOn() || time.Now().After(deadline) || ctx.Err() != nil {
				r.give(unknown, err)
				return indices, given, nil
			}
			denied = r.nc.LastError()
			ans = r.again(ctx, indices)
		}
		if ans.Err == nil {
			return indices, r.accept(indices, ans.Answer), nil
		}
		err = ans.Err
		code := wire.Refusal(err)
		switch {
		case errors.Is(err, errNotSent):
			continue
		case !ans.alone:
			unknown = unknown || code == 0
			continue
		case code == wire.CodeBadExpectedSequence:
			return indices, r.resolve(ctx, indices), nil
		case code == wire.CodeBatchTooMany: // nobody's fault; nothing of it was stored
			wire.PauseCrowded(ctx, n)
			continue
		case code == wire.CodeBatchNotEnabled: // it goes on message by message
			r.give(unknown, err)
			return indices, given, nil
		case wire.IsConfiguration(err):
			r.fail(fmt.Errorf("%w: %w", delivery.ErrConfiguration, err))
			return indices, given, nil
		case r.denied(denied) != nil:
			r.fail(fmt.Errorf("%w: %w: %w", delivery.ErrUnknown, delivery.ErrOutage, r.denied(denied)))
			return indices, given, nil
		case wire.OfMessage(code),
			code == wire.CodeStreamFull && !unknown && perSubject(err),
			code == wire.CodeBatchIncomplete && doubtful.confirmed(ctx, len(indices)):
			if r.unfit(ctx) { // no message's fault
				return indices, given, nil
			}
			return indices, refused, err
		case code == wire.CodeStreamFull, wire.NoRoom(code):
			r.give(unknown, err)
			return indices, given, nil
		case !unknown && errors.Is(err, nats.ErrNoResponders) && r.unfit(ctx): // the stream has let go of the subject
			return indices, given, nil
		case code == 0:
			unknown = true
		}
		if !r.nc.IsConnected() {
			r.give(true, err)
			return indices, given, nil
		}
		wire.Pause(ctx, n)
	}
}

// perSubject reports whether a stream is full for one subject only.
func perSubject(err error) bool {
	var e *wire.APIError
	return errors.As(err, &e) && e.Description == "maximum messages per subject exceeded"
}

// give up: a later Take learns the fate of attempts without an answer. Unsent messages are nobody's fault.
func (r *fencedRun) give(unknown bool, err error) {
	switch {
	case err == nil, errors.Is(err, errNotSent) && !unknown:
		r.fail(nil)
	case unknown || wire.Refusal(err) == 0:
		r.fail(fmt.Errorf("%w: %w: %w", delivery.ErrUnknown, delivery.ErrOutage, err))
	default:
		r.fail(fmt.Errorf("%w: %w", delivery.ErrOutage, err))
	}
}

// unfit reads the stream's settings after an answer that hints at them, and ends the run unless they fit.
func (r *fencedRun) unfit(ctx context.Context) bool {
	now, err := r.Extent(ctx)
	if err = cmp.Or(err, now.Unfit); err == nil {
		return false
	}
	r.fail(fmt.Errorf("%w: %w", delivery.ErrOutage, err))
	return true
}

// denied returns a refusal of permission that came since the error before.
func (r *fencedRun) denied(before error) error { return wire.Permission(r.nc, before, "") }

// goesOn reports whether messages may be sent: a handover does not wait for unsent ones, they are the heir's.
func (r *fencedRun) goesOn() bool { return r.batch.Lease.Valid() && !r.batch.Lease.Draining() }

// share makes the first attempt at a batch of those messages.
func (r *fencedRun) share(indices []int) *share {
	r.session.batch++
	s := &share{run: r, indices: indices, denied: r.nc.LastError(), answered: make(chan shared, 1)}
	for _, i := range indices {
		s.bytes += len(r.bodies[i].Data)
	}
	return s
}

// again sends a batch once more, by itself and under an id of its own.
func (r *fencedRun) again(ctx context.Context, indices []int) shared {
	if !r.slots.enter(ctx) {
		return shared{Answer: wire.Answer{Err: errNotSent}, alone: true}
	}
	alone := []*share{{run: r, indices: indices}}
	ans := r.answers.Exchange(ctx, func(opens, reply string) error { return r.write(alone, opens, reply) })
	r.slots.leave(ans)
	return shared{Answer: ans, alone: true}
}

// begins makes the record that begins a batch of those messages. It comes first, so that it lies there even if a server tears the batch.
func (r *fencedRun) begins(indices []int, id string) *nats.Msg {
	r.named = partOf(r.batch.Messages, indices)
	return r.next(kindBatch, id, 0, []part{r.named})
}

// next makes a record of the run's owner that is stored only behind the partition's last one.
func (r *fencedRun) next(kind, attempt string, kept uint64, parts []part) *nats.Msg {
	return r.control(r.subject, record{
		Kind: kind, Epoch: r.batch.Lease.Epoch, Owner: r.batch.Lease.Owner, Batch: r.session.batch, Attempt: attempt,
		Kept: kept, Parts: parts, Lives: r.session.lives,
	}, r.session.last)
}

// The headers of an atomic batch.
const (
	headerBatchID       = "Nats-Batch-Id"
	headerBatchSequence = "Nats-Batch-Sequence"
	headerBatchCommit   = "Nats-Batch-Commit"
)

// accept takes a positive answer: the batch lies behind its record, and ends there.
func (r *fencedRun) accept(indices []int, ans wire.Answer) verdict {
	if ans.Stream != r.cfg.Stream {
		r.fail(r.foreign(r.subject, ans.Stream))
		return given
	}
	at := ans.Sequence - uint64(len(indices))
	r.named.First = at + 1
	r.session.wrote(at)
	r.session.last, r.session.kept, r.session.parts = at, ans.Sequence, []part{r.named}
	for n, i := range indices {
		r.outcomes[i] = delivery.Outcome{
			Kind: delivery.Published, StreamSequence: r.named.First + uint64(n), FenceSequence: ans.Sequence,
		}
	}
	return stored
}

var errOldRecord = errors.New("the record before the one expected")

// resolve finds out why the expectation is wrong: an earlier attempt was stored,
// or the partition has a newer owner, or the stream lost records.
func (r *fencedRun) resolve(ctx context.Context, indices []int) verdict {
	for n := 1; ; n++ {
		ask, cancel := context.WithTimeout(ctx, r.cfg.AckTimeout)
		m, err := r.api.Last(ask, r.subject)
		cancel()
		var found record
		at := m.Sequence
		if err == nil && at > 0 {
			if found, err = recordOf(m, r.subject); err != nil {
				r.fail(err)
				return given
			}
		}
		own := found.Kind == kindBatch && found.Batch == r.session.batch && found.Epoch == r.batch.Lease.Epoch && found.Owner == r.batch.Lease.Owner
		end := uint64(0)
		if err == nil && own {
			_, end, err = r.stored(ctx, found.located(at)[0])
		}
		switch {
		case err != nil || at > 0 && at <= r.session.last: // no answer, or one of an old leader
		case own && end == found.end(at):
			return r.accept(indices, wire.Answer{Sequence: end, Stream: r.cfg.Stream})
		case found.Epoch > r.batch.Lease.Epoch:
			r.fail(fmt.Errorf("%w: epoch %d, ours is %d", delivery.ErrFenced, found.Epoch, r.batch.Lease.Epoch))
			return given
		default: // an earlier batch of this run, a part of this one, or records are missing: take it anew
			r.fail(fmt.Errorf("%w: the last control record of the partition is not the one expected", delivery.ErrUnknown))
			return given
		}
		if n >= takeAttempts || !wire.Pause(ctx, n) {
			r.fail(fmt.Errorf("%w: %w: the stream gives an old control record, or none: %w", delivery.ErrUnknown, delivery.ErrOutage,
				cmp.Or(err, context.Cause(ctx), errOldRecord)))
			return given
		}
	}
}
