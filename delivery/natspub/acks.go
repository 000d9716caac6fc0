package natspub

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"
)

// answer is what came back for one message.
type answer struct {
	index     int
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
	waiting map[string]waiter
}

type waiter struct {
	index int
	to    chan<- answer
}

func newAnswers(nc *nats.Conn) (*answers, error) {
	a := &answers{prefix: nc.NewInbox() + ".", waiting: map[string]waiter{}}
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

// expect returns a fresh reply subject; its answer goes to the channel, which
// must have room for one answer of every message that is expected on it.
func (a *answers) expect(index int, to chan<- answer) (reply string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next++
	token := strconv.FormatUint(a.next, 36)
	a.waiting[token] = waiter{index: index, to: to}
	return a.prefix + token
}

// forget drops the expectation of a reply subject. A late answer goes nowhere.
func (a *answers) forget(reply string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.waiting, reply[len(a.prefix):])
}

func (a *answers) receive(msg *nats.Msg) {
	token := msg.Subject[len(a.prefix):]
	a.mu.Lock()
	w, ok := a.waiting[token]
	delete(a.waiting, token)
	a.mu.Unlock()
	if !ok {
		return
	}
	ans := parseAnswer(msg)
	ans.index = w.index
	w.to <- ans
}

func (a *answers) close() error { return a.sub.Unsubscribe() }

// pubAck is the body of an acknowledgement, good or bad.
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
