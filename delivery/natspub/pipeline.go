package natspub

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/delivery"
)

// followers gives for each message the index of the one that is sent when it is settled: the next one of its stream; 0 for the last,
// as the first message follows nothing.
func followers(messages []delivery.Message) []int {
	next := make([]int, len(messages))
	last := make(map[string]int, len(messages))
	for i, m := range messages {
		if before, ok := last[m.Stream]; ok {
			next[before] = i
		}
		last[m.Stream] = i
	}
	return next
}

// pipeline is messages under way, one of each stream in flight. An answer has the next message sent at once.
type pipeline struct {
	*Shadow
	messages []delivery.Message
	next     []int
	done     chan struct{} // closed when nothing is in flight any more

	mu       sync.Mutex // held by whoever sends, takes and settles
	writer   *writer
	outcomes []delivery.Outcome
	replies  map[int]string // in flight
	heard    time.Time      // the last answer
}

// drive sends the first message of every stream, and waits until all that follow them are settled.
func (p *pipeline) drive(ctx context.Context, disconnected <-chan nats.Status) {
	p.begin()
	patience := p.api.patience.now()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		select {
		case <-p.done:
			return
		case <-ctx.Done():
			p.abandon(context.Cause(ctx))
		case <-disconnected:
			p.abandon(nats.ErrDisconnected)
		case <-timeout.C:
			if left := patience - p.silence(); left > 0 {
				timeout.Reset(left)
				continue
			}
			p.api.patience.unanswered(patience)
			p.abandon(fmt.Errorf("no acknowledgement within %s", patience))
		}
	}
}

// begin sends the first message of every stream.
func (p *pipeline) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.endLocked()
	follows := make([]bool, len(p.messages))
	for _, n := range p.next {
		follows[n] = follows[n] || n > 0
	}
	p.heard = time.Now()
	for i := range p.messages {
		if !follows[i] {
			p.send(i)
		}
	}
}

// receive takes the answer to a message in flight, and sends what follows it.
func (p *pipeline) receive(ans answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.replies[ans.index]; !ok {
		return // it was given up meanwhile
	}
	defer p.endLocked()
	delete(p.replies, ans.index)
	now := time.Now()
	p.api.patience.answered(now.Sub(p.heard))
	p.heard = now
	p.take(ans)
}

// silence is how long nothing was answered.
func (p *pipeline) silence() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.heard)
}

func (p *pipeline) endLocked() {
	if len(p.replies) == 0 {
		close(p.done)
	}
}

// send publishes message i, or gives it its outcome when it cannot be sent.
func (p *pipeline) send(i int) {
	m := p.messages[i]
	if err := p.build.Headers.check(m.Event); err != nil {
		p.settle(i, delivery.Outcome{Kind: delivery.Permanent, Err: err})
		return
	}
	msg := p.writer.message(m, p.build.body(m))
	p.writer.set(nats.MsgIdHdr, p.writer.messageID(m))
	if err := checkSize(headerSize(msg.Header)+len(msg.Data), p.nc.MaxPayload(), p.cfg.MaxMessageSize, p.cfg.Stream); err != nil {
		p.settle(i, delivery.Outcome{Kind: delivery.Permanent, Err: err})
		return
	}
	msg.Reply = p.answers.expect(i, p)
	if err := p.nc.PublishMsg(msg); err != nil {
		p.answers.forget(msg.Reply)
		p.settle(i, classify(plainly(p.nc, err)))
		return
	}
	p.replies[i] = msg.Reply
}

// take handles an answer.
func (p *pipeline) take(ans answer) {
	switch {
	case ans.err != nil:
		p.settle(ans.index, classify(ans.err))
	case ans.stream != p.cfg.Stream:
		p.settle(ans.index, delivery.Outcome{Err: fmt.Errorf("%w: subject %s is acknowledged by stream %q, not by %q (--stream)",
			delivery.ErrConfiguration, p.build.Subject.Of(p.messages[ans.index]), ans.stream, p.cfg.Stream)})
	default:
		p.settle(ans.index, delivery.Outcome{Kind: delivery.Published, StreamSequence: ans.sequence, Duplicate: ans.duplicate})
	}
}

// settle gives message i its outcome, and sends what follows it unless that is unknown.
func (p *pipeline) settle(i int, o delivery.Outcome) {
	p.outcomes[i] = o
	if n := p.next[i]; n > 0 && o.Kind != delivery.Unresolved {
		p.send(n)
	}
}

// abandon gives up on everything in flight: its outcome is unknown.
func (p *pipeline) abandon(cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.replies) == 0 {
		return // the last answer came just now
	}
	defer p.endLocked()
	for i, reply := range p.replies {
		p.answers.forget(reply)
		delete(p.replies, i)
		p.settle(i, delivery.Outcome{Kind: delivery.Unresolved, Err: fmt.Errorf("%w: %w", delivery.ErrUnknown, cause)})
	}
}
