package faultproxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Limits in bytes that no server reaches.
const (
	longestLine      = 1 << 20
	longestPayload   = 1 << 30
	longestOperation = 16
)

// wordEnds end the operation; \r is the first byte of the line's end.
const wordEnds = " \t\r"

var lineEnd = []byte("\r\n")

type natsSession struct {
	nats *NATS
	link *link

	mu      sync.Mutex
	claimed []*Trigger
}

func (n *NATS) follow(l *link) conversation {
	s := &natsSession{nats: n, link: l}
	return conversation{
		up:   &filter{proxy: n.Proxy, protocol: natsClient{s}},
		down: &filter{proxy: n.Proxy, protocol: natsServer{s}},
		end:  s.end,
	}
}

// claim returns the trigger that strikes at this message, or nil.
func (s *natsSession) claim(from *armed[func(Message) bool], m Message) *Trigger {
	trigger, _ := from.claim(func(match func(Message) bool) bool { return match(m) })
	if trigger != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.claimed = append(s.claimed, trigger)
	}
	return trigger
}

// giveBack lets another connection have the trigger.
func (s *natsSession) giveBack(trigger *Trigger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claimed = slices.DeleteFunc(s.claimed, func(t *Trigger) bool { return t == trigger })
	trigger.unclaim()
}

// end gives back triggers that did not come to strike.
func (s *natsSession) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, trigger := range s.claimed {
		trigger.unclaim()
	}
}

// rest returns nil: neither direction keeps anything back.
func (*natsSession) rest() []byte { return nil }

type natsClient struct{ *natsSession }

func (natsClient) name() string { return "what a NATS client sends" }

func (natsClient) frame(data []byte) (int, error) {
	return natsFrame(data, "PUB", "HPUB", "CONNECT", "SUB", "UNSUB", "PING", "PONG")
}

func (c natsClient) judge(frame []byte) ([]byte, action) {
	if c.nats.publishes.none() {
		return frame, nil
	}
	m, ok := parseMessage(frame)
	if !ok {
		return frame, nil
	}
	trigger := c.claim(&c.nats.publishes, m)
	if trigger == nil {
		return frame, nil
	}
	return frame, func(delivered bool) {
		if !delivered { // in a blackhole, or the server is gone
			c.giveBack(trigger)
			return
		}
		c.link.abandon()
		c.nats.counters.cutAfterPublishes.Add(1)
		trigger.fire()
	}
}

type natsServer struct{ *natsSession }

func (natsServer) name() string { return "what a NATS server sends" }

func (natsServer) frame(data []byte) (int, error) {
	return natsFrame(data, "MSG", "HMSG", "INFO", "+OK", "-ERR", "PING", "PONG")
}

func (a natsServer) judge(frame []byte) ([]byte, action) {
	if info, ok := bytes.CutPrefix(frame, []byte("INFO ")); ok {
		return hideNodes(frame, info), nil
	}
	if a.nats.passesAll() {
		return frame, nil
	}
	m, ok := parseMessage(frame)
	if !ok {
		return frame, nil
	}
	if a.nats.swallows(m) {
		return nil, nil
	}
	trigger := a.claim(&a.nats.acks, m)
	if trigger == nil {
		return frame, nil
	}
	return nil, func(bool) {
		a.link.reset()
		a.nats.counters.cutAtAcks.Add(1)
		trigger.fire()
	}
}

// natsFrame measures a control line, with the payload where one follows. Only these operations are known.
func natsFrame(data []byte, known ...string) (int, error) {
	line, _, complete := bytes.Cut(data, lineEnd)
	op := operation(line)
	named := complete || bytes.ContainsAny(line, wordEnds)
	if !slices.ContainsFunc(known, func(k string) bool { return k == op || !named && strings.HasPrefix(k, op) }) {
		return 0, fmt.Errorf("%.20q is no operation", line)
	}
	end := len(line) + len(lineEnd)
	switch {
	case len(line) > longestLine:
		return 0, fmt.Errorf("the line of %s is longer than %d bytes", op, longestLine)
	case !complete:
		return 0, nil
	case !carriesPayload(op):
		return end, nil
	}
	fields := bytes.Fields(line)
	size, err := strconv.Atoi(string(fields[len(fields)-1]))
	if err != nil || size < 0 || size > longestPayload || len(fields) < 3 {
		return 0, fmt.Errorf("%.200q tells no size", line)
	}
	return end + size + len(lineEnd), nil
}

// operation returns the first word of a line, in upper case.
func operation(line []byte) string {
	if i := bytes.IndexAny(line, wordEnds); i >= 0 {
		line = line[:i]
	}
	return strings.ToUpper(string(line[:min(len(line), longestOperation)]))
}

func carriesPayload(op string) bool {
	return op == "PUB" || op == "HPUB" || op == "MSG" || op == "HMSG"
}

// parseMessage reads a whole frame; false when it is no message.
//
//	PUB subject [reply] size           MSG subject sid [reply] size
//	HPUB subject [reply] header size   HMSG subject sid [reply] header size
func parseMessage(frame []byte) (Message, bool) {
	line, body, _ := bytes.Cut(frame, lineEnd)
	op := operation(line)
	if !carriesPayload(op) {
		return Message{}, false
	}
	fields := bytes.Fields(line)
	sizes := 1
	if op[0] == 'H' {
		sizes = 2
	}
	names := fields[1 : len(fields)-sizes]
	if strings.HasSuffix(op, "MSG") && len(names) > 1 { // without the subscription
		names = append(names[:1:1], names[2:]...)
	}
	if len(names) == 0 || len(body) < len(lineEnd) {
		return Message{}, false
	}
	m := Message{Subject: string(names[0]), Payload: body[:len(body)-len(lineEnd)]}
	if len(names) > 1 {
		m.Reply = string(names[1])
	}
	if sizes == 2 {
		n, err := strconv.Atoi(string(fields[len(fields)-2]))
		if err != nil || n < 0 || n > len(m.Payload) {
			return Message{}, false
		}
		m.Header, m.Payload = m.Payload[:n], m.Payload[n:]
	}
	return m, true
}

// hideNodes takes the addresses of other nodes out of INFO, which would lead the client past the proxy. Unreadable ones pass unchanged.
func hideNodes(frame, info []byte) []byte {
	var fields map[string]json.RawMessage
	if json.Unmarshal(info, &fields) != nil {
		return frame
	}
	nodes := len(fields)
	delete(fields, "connect_urls")
	delete(fields, "ws_connect_urls")
	if len(fields) == nodes {
		return frame
	}
	changed, err := json.Marshal(fields)
	if err != nil {
		return frame
	}
	return append(append([]byte("INFO "), changed...), lineEnd...)
}
