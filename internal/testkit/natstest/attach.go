package natstest

import (
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Attach makes clients of servers that run elsewhere, as processes of their own. The addresses are separated by commas.
func Attach(urls string) *Server { return &Server{url: urls} }

const askTimeout = time.Second

// Ask opens a connection that tries once, to the named addresses alone. done closes it.
func (s *Server) Ask() (js jetstream.JetStream, done func(), err error) {
	conn, err := nats.Connect(s.url, nats.NoReconnect(), nats.IgnoreDiscoveredServers(), nats.Timeout(askTimeout))
	if err != nil {
		return nil, nil, err
	}
	if js, err = jetstream.New(conn); err != nil {
		conn.Close()
		return nil, nil, err
	}
	return js, conn.Close, nil
}
