package natspub

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

type answer struct {
	sequence  uint64
	duplicate bool
	stream    string
	err       error
}

// answers matches acknowledgements to messages: one subscription for all, the
// last token of the reply subject names the message.
type answers struct {
	prefix string
	sub    *nats.Subscription

	mu      sync.Mutex
	next    uint64
	waiting map[uint64]receiver
	stream  string // of the last acknowledgement
}

// receiver takes answers, on the goroutine that reads all of them: it must not wait.
type receiver interface{ receive(ans answer) }

// answerChannel is a receiver that has room for every answer it will get.
type answerChannel chan answer

func (c answerChannel) receive(ans answer) { c <- ans }

func newAnswers(nc *nats.Conn) (*answers, error) {
	a := &answers{prefix: nc.NewInbox() + ".", waiting: map[uint64]receiver{}}
	sub, err := nc.Subscribe(a.prefix+"*", a.receive)
	if err != nil {
		return nil, fmt.Errorf("subscribe to acknowledgements: %w", err)
	}
	// Answers are small and counted by the window; none may be dropped.
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return nil, fmt.Errorf("subscribe to acknowledgements: %w", err)
	}
	a.sub = sub
	return a, nil
}

// expect returns a fresh reply subject, and to whom its answer goes.
func (a *answers) expect(to receiver) (reply string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next++
	a.waiting[a.next] = to
	return string(strconv.AppendUint(append(make([]byte, 0, len(a.prefix)+13), a.prefix...), a.next, 36))
}

// number is which message a reply subject stands for.
func (a *answers) number(reply string) (uint64, bool) {
	n, err := strconv.ParseUint(strings.TrimPrefix(reply, a.prefix), 36, 64)
	return n, err == nil
}

// forget drops the expectation of a reply subject. A late answer goes nowhere.
func (a *answers) forget(reply string) {
	n, _ := a.number(reply)
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.waiting, n)
}

func (a *answers) receive(msg *nats.Msg) {
	n, ok := a.number(msg.Subject)
	if !ok {
		return
	}
	ans, usual := usualAnswer(msg.Data, a.stream)
	if !usual {
		ans = parseAnswer(msg)
		a.stream = ans.stream // only this subscription's goroutine uses it
	}
	if refusal(ans.err) == codeStreamNotMatch { // another stream on the subject, as at a leaf node: it is not the one that was asked
		return
	}
	a.mu.Lock()
	to, ok := a.waiting[n]
	delete(a.waiting, n)
	a.mu.Unlock()
	if !ok {
		return
	}
	to.receive(ans)
}

// usualAnswer reads what a server writes of a message that it has stored in that
// stream, without decoding JSON; false: it is something else.
func usualAnswer(data []byte, stream string) (answer, bool) {
	const opening, middle, closing = `{"stream":"`, `","seq":`, `}`
	rest, ok := bytes.CutPrefix(data, []byte(opening))
	if !ok || len(rest) < len(stream) || stream == "" || string(rest[:len(stream)]) != stream {
		return answer{}, false
	}
	if rest, ok = bytes.CutPrefix(rest[len(stream):], []byte(middle)); !ok {
		return answer{}, false
	}
	digits, ok := bytes.CutSuffix(rest, []byte(closing))
	if !ok || len(digits) == 0 || len(digits) > 18 {
		return answer{}, false
	}
	ans := answer{stream: stream}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return answer{}, false
		}
		ans.sequence = 10*ans.sequence + uint64(c-'0')
	}
	return ans, true
}

func (a *answers) close() error { return a.sub.Unsubscribe() }

// exchange sends messages, of which write sends all with these reply subjects on the first and the
// last one, and waits for the answer.
func (f *Fenced) exchange(ctx context.Context, write func(opens, reply string) error) answer {
	answered := make(answerChannel, 2)
	opens, reply := f.answers.expect(opening{answered}), f.answers.expect(answered)
	defer f.answers.forget(opens)
	defer f.answers.forget(reply)
	disconnected := f.nc.StatusChanged(nats.RECONNECTING, nats.CLOSED, nats.DISCONNECTED)
	defer f.nc.RemoveStatusListener(disconnected)
	if err := write(opens, reply); err != nil {
		return answer{err: plainly(f.nc, err)}
	}
	began, patience := time.Now(), f.api.patience.now()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case ans := <-answered:
		f.api.patience.answered(time.Since(began))
		return ans
	case <-disconnected:
		return answer{err: nats.ErrDisconnected}
	case <-timeout.C:
		f.api.patience.unanswered(patience)
		return answer{err: fmt.Errorf("%w within %s", nats.ErrTimeout, patience)}
	case <-ctx.Done():
		return answer{err: context.Cause(ctx)}
	}
}

type pubAck struct {
	Stream    string    `json:"stream"`
	Sequence  uint64    `json:"seq"`
	Duplicate bool      `json:"duplicate"`
	Error     *APIError `json:"error"`
}

func parseAnswer(msg *nats.Msg) answer {
	if len(msg.Data) == 0 {
		if msg.Header.Get("Status") == "503" {
			return answer{err: nats.ErrNoResponders}
		}
		return answer{err: fmt.Errorf("empty acknowledgement, status %q", msg.Header.Get("Status"))}
	}
	var ack pubAck
	if err := json.Unmarshal(msg.Data, &ack); err != nil {
		return answer{err: fmt.Errorf("malformed acknowledgement: %w", err)}
	}
	if ack.Error != nil {
		return answer{err: ack.Error}
	}
	return answer{sequence: ack.Sequence, duplicate: ack.Duplicate, stream: ack.Stream}
}

const defaultAckTimeout = 5 * time.Second

// leastPatience is the shortest that an answer is awaited, unless the time-out itself is shorter.
const leastPatience = time.Second

// patience is how long an answer is awaited before it is asked for again. What was on its way to a leader that stopped is
// never answered, so it follows how long answers took, as TCP's retransmission does (RFC 6298), and doubles while there are
// none: a broker that is always slow is not asked in vain for ever.
type patience struct {
	most time.Duration // --ack-timeout

	mu           sync.Mutex
	smooth, vary time.Duration // of the answers' times
	silent       int           // waits that ended without an answer, since the last one
}

func (p *patience) now() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.nowLocked()
}

func (p *patience) nowLocked() time.Duration {
	return min(p.most, max(leastPatience, p.smooth+4*p.vary)<<min(p.silent, 10))
}

func (p *patience) answered(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.silent = 0; p.smooth == 0 {
		p.smooth, p.vary = took, took/2
		return
	}
	p.vary += ((p.smooth - took).Abs() - p.vary) / 4
	p.smooth += (took - p.smooth) / 8
}

// unanswered notes that a wait of that long was in vain. Of those that waited beside each other the first one counts.
func (p *patience) unanswered(waited time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if waited >= p.nowLocked() {
		p.silent++
	}
}
