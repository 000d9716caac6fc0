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

// combiner puts the batches of several partitions into one atomic batch (ADR 22). Each keeps its own record with its own expectation, so
// each is fenced as if it were alone; together they share what a batch costs the server, which is more than its messages do. The shares of
// one look at the outbox come together. While flights are in the air, the next ones gather; what does not fit into one is cut, so that
// flights are full as long as enough waits.
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

// shared is the answer to a share. Of several shares in a refused batch each has
// to ask again by itself, since the answer may concern another.
type shared struct {
	wire.Answer
	alone bool
	sent  int // how many of the messages were in the batch: the first ones
}

const (
	// batchMessages is the server's limit of messages in a batch, control messages included.
	batchMessages = 1000
	// fullFlights is how many more flights may be in the air as long as they are full:
	// the server takes in one batch while it writes another.
	fullFlights = 1
	// leastCut is the fewest messages that are cut off a share to fill a batch.
	leastCut = 50
)

var errNotSent = errors.New("not sent")

// add has shares sent that come together, as soon as there is room.
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

// occupy counts a flight until it has landed. The next looks gather meanwhile.
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

// announceLocked tells those who wait when a share would fly at once.
func (c *combiner) announceLocked() {
	if c.landed != nil && c.freeLocked() {
		close(c.landed)
		c.landed = nil
	}
}

// freeLocked tells whether a share would fly at once, however small it is.
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

// fullLocked tells whether enough waits for a batch that could not be larger.
func (c *combiner) fullLocked() bool {
	messages, bytes := 0, 0
	for _, s := range c.queue {
		messages, bytes = messages+len(s.indices)+1, bytes+s.bytes
	}
	return messages >= batchMessages || bytes >= MaxBatchBytes
}

// boardLocked takes as many shares from the queue as fit into one batch. The rest
// of one that is cut comes back when its owner knows the answer to the first part.
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

// stillGoing are the shares that may be sent; the others have their answer.
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

// answerAll tells each share what became of it, and where its last message lies.
func answerAll(shares []*share, ans wire.Answer) {
	for i := len(shares) - 1; i >= 0; i-- {
		s := shares[i]
		s.answered <- shared{Answer: ans, alone: len(shares) == 1, sent: len(s.indices)}
		if ans.Err == nil {
			ans.Sequence -= uint64(len(s.indices)) + 1
		}
	}
}

// write sends the shares as one batch, each behind its own record: whether there is room for it is answered to opens, and what
// became of it to reply. The writer makes every message in the same place.
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

// suspicion tells a batch that the stream refuses for what is in it from one that was torn by an election or a broken connection: the
// server answers both as incomplete.
type suspicion struct {
	run        *fencedRun
	incomplete int
	reconnects uint64
}

// confirmed notes one more such answer to a batch of so many messages. Several in a row over one connection are enough to halve a batch,
// which harms nothing. A single message is accused only when the stream stores a control message of the partition each time between.
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

// orRetry is the kind of a single message that was refused again and again.
func orRetry(k delivery.Kind) delivery.Kind {
	if k == delivery.Permanent {
		return k
	}
	return delivery.Retry
}
