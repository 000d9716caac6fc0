package natspub

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub/wire"
)

// combiner puts the batches of several partitions into one atomic batch (ADR 22). Each keeps its own record and expectation, so each is
// fenced as if it were alone; together they share the server's cost of a batch, which exceeds that of its messages. The shares of one
// Publish come together. While batches are in flight, the next shares gather; a share too large for one batch is cut, so that batches are
// full as long as enough waits.
type combiner struct {
	f *Fenced

	mu     sync.Mutex
	queue  []*share
	flying int
	landed chan struct{} // closed when the next share would fly at once; nil while nobody waits for that
}

// share is one partition's part of a flight.
type share struct {
	run      *fencedRun
	indices  []int
	bytes    int
	denied   error       // the connection's last one before
	answered chan shared // receives once; never blocks
}

// shared is the answer to a share. Each of several shares in a refused batch asks again by itself, since the answer may concern another.
type shared struct {
	wire.Answer
	alone bool
	sent  int // how many of the messages were in the batch: the first ones
}

const (
	// batchMessages is the server's limit of messages in a batch, control messages included.
	batchMessages = 1000
	// fullFlights more flights may be in the air as long as they are full: the server takes in one batch while it writes another.
	fullFlights = 1
	// leastCut is the fewest messages that are cut off a share to fill a batch.
	leastCut = 50
)

var errNotSent = errors.New("not sent")

// add queues shares that come together; they are sent when there is room.
func (c *combiner) add(shares ...*share) {
	c.mu.Lock()
	c.queue = append(c.queue, shares...)
	c.mu.Unlock()
	c.dispatch()
}

// wait returns the answer to a share.
func (c *combiner) wait(ctx context.Context, s *share) shared {
	select {
	case ans := <-s.answered:
		return ans
	case <-ctx.Done():
		return shared{Answer: wire.Answer{Err: context.Cause(ctx)}, alone: true}
	}
}

// dispatch starts flights while there is room and something waits.
func (c *combiner) dispatch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.queue) > 0 && (c.flying < c.f.cfg.Flights || c.flying < c.f.cfg.Flights+fullFlights && c.fullLocked()) {
		aboard := c.boardLocked()
		landed := c.occupyLocked()
		go func() {
			c.fly(aboard)
			landed()
		}()
	}
	c.announceLocked()
}

// occupy counts a flight until it has landed. Later shares gather meanwhile.
func (c *combiner) occupy() (landed func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.occupyLocked()
}

func (c *combiner) occupyLocked() (landed func()) {
	c.flying++
	return func() {
		c.mu.Lock()
		c.flying--
		c.mu.Unlock()
		c.dispatch()
	}
}

// announceLocked wakes those who wait when a share would fly at once.
func (c *combiner) announceLocked() {
	if c.landed != nil && c.freeLocked() {
		close(c.landed)
		c.landed = nil
	}
}

// freeLocked reports whether a share would fly at once, however small it is.
func (c *combiner) freeLocked() bool { return len(c.queue) == 0 && c.flying < c.f.cfg.Flights }

// ready returns a channel that is closed when a share would fly at once.
func (c *combiner) ready() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.landed == nil {
		c.landed = make(chan struct{})
	}
	landed := c.landed
	c.announceLocked()
	return landed
}

// fullLocked reports whether the queue fills a batch of the largest size.
func (c *combiner) fullLocked() bool {
	messages, bytes := 0, 0
	for _, s := range c.queue {
		messages, bytes = messages+len(s.indices)+1, bytes+s.bytes
	}
	return messages >= batchMessages || bytes >= MaxBatchBytes
}

// boardLocked takes as many shares from the queue as fit into one batch. A cut share's rest comes back when its owner knows the answer to
// the first part.
func (c *combiner) boardLocked() []*share {
	messages, bytes, n := 0, 0, 0
	for _, s := range c.queue {
		room := batchMessages - messages - 1
		if n > 0 && (bytes+s.bytes > MaxBatchBytes || room < min(len(s.indices), leastCut)) {
			break
		}
		s.indices = s.indices[:min(len(s.indices), room)]
		messages, bytes, n = messages+len(s.indices)+1, bytes+s.bytes, n+1
	}
	aboard := slices.Clone(c.queue[:n])
	clear(c.queue[:n]) // the queue's memory outlives them, and they hold payloads
	c.queue = c.queue[n:]
	return aboard
}

// fly sends one batch and gives every share its answer.
func (c *combiner) fly(aboard []*share) {
	// A share's own context ends its waiting; the flight ends by its time-out.
	ctx, cancel := context.WithTimeout(context.Background(), 2*c.f.cfg.AckTimeout)
	defer cancel()
	for n := 1; ; n++ {
		if !c.f.slots.enter(ctx) {
			answerAll(aboard, wire.Answer{Err: errNotSent})
			return
		}
		ans := wire.Answer{Err: errNotSent}
		if aboard = stillGoing(aboard); len(aboard) > 0 {
			ans = c.f.answers.Exchange(ctx, func(opens, reply string) error { return c.f.write(aboard, opens, reply) })
		}
		c.f.slots.leave(ans)
		if wire.Refusal(ans.Err) != wire.CodeBatchTooMany || !wire.PauseCrowded(ctx, n) {
			answerAll(aboard, ans)
			return
		}
	}
}

// stillGoing returns the shares that may be sent; the others get their answer.
func stillGoing(aboard []*share) []*share {
	sent := aboard[:0]
	for _, s := range aboard {
		if !s.run.goesOn() {
			answerAll([]*share{s}, wire.Answer{Err: errNotSent})
			continue
		}
		sent = append(sent, s)
	}
	return sent
}

// answerAll gives each share its outcome, and the position of its last message.
func answerAll(shares []*share, ans wire.Answer) {
	for i := len(shares) - 1; i >= 0; i-- {
		s := shares[i]
		s.answered <- shared{Answer: ans, alone: len(shares) == 1, sent: len(s.indices)}
		if ans.Err == nil {
			ans.Sequence -= uint64(len(s.indices)) + 1
		}
	}
}

// write sends the shares as one batch, each behind its own record. The server says on opens whether it has room, on reply whether it
// stored the batch. The writer makes every message in the same memory.
func (f *Fenced) write(shares []*share, opens, reply string) error {
	w := f.writers.Get()
	defer f.writers.Put(w)
	defer w.Without(headerBatchID, headerBatchSequence, headerBatchCommit)
	id, n := []string{f.attempt()}, 0
	send := func(msg *nats.Msg) error {
		msg.Header[headerBatchID], msg.Header[headerBatchSequence] = id, batchNumbers[n]
		if n == 0 {
			msg.Reply = cmp.Or(msg.Reply, opens)
		}
		n++
		return f.nc.PublishMsg(msg)
	}
	for i, s := range shares {
		if err := send(s.run.begins(s.indices, id[0])); err != nil {
			return err
		}
		for j, index := range s.indices {
			msg := w.Message(s.run.batch.Messages[index], s.run.bodies[index])
			if i == len(shares)-1 && j == len(s.indices)-1 {
				msg.Header[headerBatchCommit], msg.Reply = []string{"1"}, reply
			}
			if err := send(msg); err != nil {
				return err
			}
		}
	}
	return nil
}

// batchNumbers are the values of headerBatchSequence, from 1.
var batchNumbers = func() (numbers [batchMessages][]string) {
	for i := range numbers {
		numbers[i] = []string{strconv.Itoa(i + 1)}
	}
	return numbers
}()

// suspicion distinguishes a batch that the stream refuses for its content from one torn by an election or a broken connection: the server
// answers both as incomplete.
type suspicion struct {
	run        *fencedRun
	incomplete int
	reconnects uint64
}

// confirmed counts one more such answer, and reports whether they suffice to halve a batch of so many messages, which harms nothing. A
// single message is accused only if the stream stores a control message of the partition after each answer.
func (s *suspicion) confirmed(ctx context.Context, messages int) bool {
	if now := s.run.nc.Stats().Reconnects; now != s.reconnects {
		s.incomplete, s.reconnects = 0, now
	}
	s.incomplete++
	if messages == 1 && !s.run.storesControl(ctx) {
		s.incomplete = 0
	}
	return s.incomplete >= incompleteToSplit
}

// storesControl writes the partition's record again, under the same expectation as any batch.
func (r *fencedRun) storesControl(ctx context.Context) bool {
	ans := r.ask(ctx, r.next(kindFence, r.attempt(), r.session.kept, r.session.parts))
	if ans.Err != nil {
		return false
	}
	r.session.last = ans.Sequence
	r.session.wrote(ans.Sequence)
	return true
}

// orRetry returns the kind of a single message that was refused repeatedly.
func orRetry(k delivery.Kind) delivery.Kind {
	if k == delivery.Permanent {
		return k
	}
	return delivery.Retry
}
