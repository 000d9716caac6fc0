package wire

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

// Answer is a message's position in the stream, or its error.
type Answer struct {
	Sequence  uint64 // in the stream; of a batch, its last message's
	Duplicate bool   // it was stored before, under the same message id
	Stream    string // that acknowledged
	Err       error  // an APIError, the client's, or the cause that ended the wait
}

// Answers matches acknowledgements to messages: one subscription for all, the last token of the reply subject names the message.
type Answers struct {
	nc       *nats.Conn
	patience *patience
	ours     func(context.Context) bool
	prefix   string
	sub      *nats.Subscription

	mu      sync.Mutex
	next    uint64
	waiting map[uint64]receiver
	stream  string // of the last acknowledgement
}

// receiver takes answers, on the goroutine that reads all of them: it must not wait.
type receiver interface{ receive(ans Answer) }

// answerChannel is a receiver with room for the answers of some leaf nodes. A dropped one counts as lost.
type answerChannel chan Answer

func (c answerChannel) receive(ans Answer) {
	select {
	case c <- ans:
	default:
	}
}

// NewAnswers subscribes to answers, which are awaited as long as those of that API. Close ends it. ours decides whether the own stream
// takes no batches: the refusal names no stream, and another one on the subjects may be quicker.
func NewAnswers(of StreamAPI, ours func(context.Context) bool) (*Answers, error) {
	a := &Answers{nc: of.nc, patience: of.patience, ours: ours, prefix: of.nc.NewInbox() + ".", waiting: map[uint64]receiver{}}
	sub, err := a.nc.Subscribe(a.prefix+"*", a.receive)
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

// expect returns a fresh reply subject, whose answer the receiver gets.
func (a *Answers) expect(to receiver) (reply string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next++
	a.waiting[a.next] = to
	return string(strconv.AppendUint(append(make([]byte, 0, len(a.prefix)+13), a.prefix...), a.next, 36))
}

// number returns the message's number in a reply subject.
func (a *Answers) number(reply string) (uint64, bool) {
	n, err := strconv.ParseUint(strings.TrimPrefix(reply, a.prefix), 36, 64)
	return n, err == nil
}

// forget drops the expectation of a reply subject. A late answer goes nowhere.
func (a *Answers) forget(reply string) {
	n, _ := a.number(reply)
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.waiting, n)
}

func (a *Answers) receive(msg *nats.Msg) {
	n, ok := a.number(msg.Subject)
	if !ok {
		return
	}
	ans, usual := usualAnswer(msg.Data, a.stream)
	if !usual {
		ans = ParseAnswer(msg)
		a.stream = ans.Stream // only this subscription's goroutine uses it
	}
	if Refusal(ans.Err) == codeStreamNotMatch { // another stream on the subject, as at a leaf node: it is not the one that was asked
		return
	}
	a.mu.Lock()
	to, ok := a.waiting[n]
	if Refusal(ans.Err) != CodeBatchNotEnabled { // behind another stream's comes ours
		delete(a.waiting, n)
	}
	a.mu.Unlock()
	if !ok {
		return
	}
	to.receive(ans)
}

// usualAnswer reads a server's usual acknowledgement of a message in that stream, without decoding JSON; false: the answer is another
// one.
func usualAnswer(data []byte, stream string) (Answer, bool) {
	const opening, middle, closing = `{"stream":"`, `","seq":`, `}`
	rest, ok := bytes.CutPrefix(data, []byte(opening))
	if !ok || len(rest) < len(stream) || stream == "" || string(rest[:len(stream)]) != stream {
		return Answer{}, false
	}
	if rest, ok = bytes.CutPrefix(rest[len(stream):], []byte(middle)); !ok {
		return Answer{}, false
	}
	digits, ok := bytes.CutSuffix(rest, []byte(closing))
	if !ok || len(digits) == 0 || len(digits) > 18 {
		return Answer{}, false
	}
	ans := Answer{Stream: stream}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return Answer{}, false
		}
		ans.Sequence = 10*ans.Sequence + uint64(c-'0')
	}
	return ans, true
}

// Close ends the subscription.
func (a *Answers) Close() error { return a.sub.Unsubscribe() }

// Exchange has write send messages, the first one with the reply subject opens and the last one with reply, and waits for the answer:
// until connection, patience or ctx ends.
func (a *Answers) Exchange(ctx context.Context, write func(opens, reply string) error) Answer {
	answered := make(answerChannel, 16)
	opens, reply := a.expect(opening{answered}), a.expect(answered)
	defer a.forget(opens)
	defer a.forget(reply)
	disconnected := a.nc.StatusChanged(nats.RECONNECTING, nats.CLOSED, nats.DISCONNECTED)
	defer a.nc.RemoveStatusListener(disconnected)
	if err := write(opens, reply); err != nil {
		return Answer{Err: Plainly(a.nc, err)}
	}
	began, patience := time.Now(), a.patience.now()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		select {
		case ans := <-answered:
			if Refusal(ans.Err) == CodeBatchNotEnabled && !a.ours(ctx) {
				continue
			}
			a.patience.answered(time.Since(began))
			return ans
		case <-disconnected:
			return Answer{Err: nats.ErrDisconnected}
		case <-timeout.C:
			a.patience.unanswered(patience)
			return Answer{Err: fmt.Errorf("%w within %s", nats.ErrTimeout, patience)}
		case <-ctx.Done():
			return Answer{Err: context.Cause(ctx)}
		}
	}
}

// opening receives the answer to a batch's first message: empty, or a refusal for want of room, which servers before 2.14 give as
// incomplete. The last message's answer has all other errors, too.
type opening struct{ to answerChannel }

func (o opening) receive(ans Answer) {
	if code := Refusal(ans.Err); code == CodeBatchTooMany || code == CodeBatchIncomplete {
		o.to.receive(Answer{Err: errTooMany})
	}
}

var errTooMany = &APIError{Code: 400, ErrCode: CodeBatchTooMany, Description: "the stream takes no more atomic batches at once"}

type pubAck struct {
	Stream    string    `json:"stream"`
	Sequence  uint64    `json:"seq"`
	Duplicate bool      `json:"duplicate"`
	Error     *APIError `json:"error"`
}

// ParseAnswer reads an acknowledgement, or the refusal instead of it.
func ParseAnswer(msg *nats.Msg) Answer {
	if len(msg.Data) == 0 {
		if msg.Header.Get("Status") == "503" {
			return Answer{Err: nats.ErrNoResponders}
		}
		return Answer{Err: fmt.Errorf("empty acknowledgement, status %q", msg.Header.Get("Status"))}
	}
	var ack pubAck
	if err := json.Unmarshal(msg.Data, &ack); err != nil {
		return Answer{Err: fmt.Errorf("malformed acknowledgement: %w", err)}
	}
	if ack.Error != nil {
		return Answer{Err: ack.Error}
	}
	return Answer{Sequence: ack.Sequence, Duplicate: ack.Duplicate, Stream: ack.Stream}
}
