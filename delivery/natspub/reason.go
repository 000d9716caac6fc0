package natspub

import (
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/condition"
	"github.com/postrider/postrider/delivery"
)

// Reason classes what a publisher reports; "": it is not the broker's. It is a
// condition.Judge.
func Reason(err error) condition.Reason {
	code := refusal(err)
	switch {
	case errors.Is(err, delivery.ErrFenced):
		return condition.FenceRefused
	case errors.Is(err, nats.ErrPermissionViolation), errors.Is(err, nats.ErrAuthorization), errors.Is(err, delivery.ErrConfiguration),
		errors.Is(err, ErrStreamUnfit):
		return condition.BrokerRefused
	case code == codeStreamNotFound, errors.Is(err, ErrStreamMissing), errors.Is(err, jetstream.ErrStreamNotFound):
		return condition.StreamMissing
	case code == codeStreamFull:
		return condition.StreamFull
	case errors.Is(err, ErrNotConnected), errors.Is(err, nats.ErrDisconnected), errors.Is(err, nats.ErrConnectionClosed):
		return condition.BrokerAway
	case code != 0, errors.Is(err, delivery.ErrOutage), errors.Is(err, delivery.ErrUnknown), errors.Is(err, nats.ErrNoResponders):
		return condition.StreamAway
	}
	return ""
}

// ErrNotConnected is what the client says of everything that is sent while it looks
// for a server.
var ErrNotConnected = errors.New("not connected to NATS")

// plainly puts the client's words for a missing connection into plain ones: without
// a reconnect buffer, it says that a buffer is full.
func plainly(err error) error {
	if errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrConnectionReconnecting) {
		return notConnectedError{err}
	}
	return err
}

// notConnectedError is ErrNotConnected, and still what the client said.
type notConnectedError struct{ said error }

func (notConnectedError) Error() string     { return ErrNotConnected.Error() }
func (e notConnectedError) Unwrap() []error { return []error{ErrNotConnected, e.said} }

// permission returns a refusal of permission that came since the last error was looked
// at: it comes by itself, and what was refused has no answer.
func permission(nc *nats.Conn, before error) error {
	//nolint:errorlint // identity is meant: each refusal is an error of its own
	if e := nc.LastError(); e != before && errors.Is(e, nats.ErrPermissionViolation) {
		return e
	}
	return nil
}
