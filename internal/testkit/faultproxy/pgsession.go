package faultproxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// Codes that stand in the place of the protocol version in the first message.
const (
	cancelRequest = 80877102
	sslRequest    = 80877103
	gssRequest    = 80877104
)

// The types of messages.
const (
	clientKinds = "BCDEFHPQSXcdfp"
	serverKinds = "123ACDEGHIKNRSTVWZcdnstv"
)

const (
	// longestStartup is above the server's limit, in bytes.
	longestStartup = 10000
	// longestMessage is the server's limit, in bytes.
	longestMessage = 1 << 30
)

var errEncrypted = errors.New("it is encrypted: connect with sslmode=disable")

// pgSession follows one connection to PostgreSQL.
//
// The client's Query, Sync and FunctionCall, and the start of the session, are answered by one ReadyForQuery each, in
// this order. So the answer to a commit is found.
type pgSession struct {
	postgres *Postgres
	link     *link

	mu         sync.Mutex
	started    bool // the startup message was seen
	asked      int  // messages that ReadyForQuery answers
	answered   int
	encryption bool // the server's next byte says whether it encrypts
	encrypted  bool
	prepared   map[string]string // statement name → text
	portals    map[string]string // portal name → text
	tx         transaction

	claimed *Trigger
	commit  *pendingCommit // whose answer is waited for
}

// pendingCommit is a commit that the server has, under AfterServer.
type pendingCommit struct {
	number   int  // of the ReadyForQuery that answers it
	explicit bool // by a COMMIT
	tagged   bool // COMMIT was answered by COMMIT and not by ROLLBACK
	failed   bool // an error was answered
	answer   []byte
}

func (g *Postgres) follow(l *link) conversation {
	s := &pgSession{postgres: g, link: l, prepared: map[string]string{}, portals: map[string]string{}}
	return conversation{
		up:   &filter{proxy: g.Proxy, protocol: pgClient{s}},
		down: &filter{proxy: g.Proxy, protocol: pgServer{s}},
		end:  s.end,
	}
}

// end gives back a trigger that did not come to strike.
func (s *pgSession) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claimed != nil {
		s.claimed.unclaim()
	}
}

// strike returns the action that cuts here and now.
func (s *pgSession) strike(trigger *Trigger, p Point) action {
	return func(bool) {
		s.link.reset()
		if p == BeforeServer {
			s.postgres.counters.commitsBefore.Add(1)
		} else {
			s.postgres.counters.commitsAfter.Add(1)
		}
		trigger.fire()
	}
}

type pgClient struct{ *pgSession }

func (pgClient) name() string { return "what a PostgreSQL client sends" }

func (pgClient) rest() []byte { return nil }

func (c pgClient) frame(data []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.encrypted {
		return 0, errEncrypted
	}
	if c.started {
		return pgFrame(data, clientKinds)
	}
	if len(data) < 4 {
		return 0, nil
	}
	n := binary.BigEndian.Uint32(data)
	if n < 8 || n > longestStartup {
		return 0, fmt.Errorf("the first message has %d bytes", n)
	}
	return int(n), nil
}

// pgFrame measures a message of type, length and body. Only these types are known.
func pgFrame(data []byte, kinds string) (int, error) {
	if strings.IndexByte(kinds, data[0]) < 0 {
		return 0, fmt.Errorf("there is no message of type %q", data[0])
	}
	if len(data) < 5 {
		return 0, nil
	}
	n := binary.BigEndian.Uint32(data[1:])
	if n < 4 || n > longestMessage {
		return 0, fmt.Errorf("message %q has %d bytes", data[0], n)
	}
	return int(n) + 1, nil
}

func (c pgClient) judge(frame []byte) ([]byte, action) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.started {
		c.start(binary.BigEndian.Uint32(frame[4:]))
		return frame, nil
	}
	commits, number, explicit := c.read(frame[0], frame[5:])
	if c.commit != nil {
		return frame, nil
	}
	for _, executed := range commits {
		trigger, point := c.postgres.claim(executed, c.tx.failed)
		if trigger == nil {
			continue
		}
		c.claimed = trigger
		if point == BeforeServer {
			return nil, c.strike(trigger, point)
		}
		c.commit = &pendingCommit{number: number, explicit: explicit}
		break
	}
	return frame, nil
}

func (s *pgSession) start(code uint32) {
	switch code {
	case sslRequest, gssRequest:
		s.encryption = true
	case cancelRequest: // nothing follows
	default:
		s.started = true
		s.asked++
	}
}

// read follows one message. It returns the statements that it commits, the number of the answer, and whether a COMMIT does so.
func (s *pgSession) read(kind byte, body []byte) (commits []statements, number int, explicit bool) {
	switch kind {
	case 'P':
		name, body := cString(body)
		s.prepared[name], _ = cString(body)
	case 'B':
		portal, body := cString(body)
		name, _ := cString(body)
		s.portals[portal] = s.prepared[name]
	case 'C':
		s.forget(body)
	case 'E':
		portal, _ := cString(body)
		commits, explicit = s.tx.execute(s.portals[portal])
		number = s.asked + 1
	case 'Q':
		s.asked++
		text, _ := cString(body)
		commits, explicit = s.tx.query(text)
		number = s.asked
	case 'S':
		s.asked++
		commits = s.tx.sync()
		number = s.asked
	case 'F':
		s.asked++
	}
	return commits, number, explicit
}

// forget takes the body of a Close.
func (s *pgSession) forget(body []byte) {
	if len(body) == 0 {
		return
	}
	name, _ := cString(body[1:])
	if body[0] == 'S' {
		delete(s.prepared, name)
	} else {
		delete(s.portals, name)
	}
}

func cString(body []byte) (string, []byte) {
	text, rest, _ := bytes.Cut(body, []byte{0})
	return string(text), rest
}
