package closed

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/puddle/v2"
	"github.com/nats-io/nats.go"
)

// Err is wrapped by every error of a connection or pool that will not come back.
var Err = errors.New("closed for good")

// Connection returns an Err when nothing can be sent on the connection any more, and nil when the context ends before.
func Connection(ctx context.Context, nc *nats.Conn) error {
	closed := nc.StatusChanged(nats.CLOSED)
	defer nc.RemoveStatusListener(closed)
	for !nc.IsClosed() {
		select {
		case <-ctx.Done():
			return nil
		case <-closed:
		}
	}
	text := ""
	if last := nc.LastError(); last != nil {
		text = ": " + last.Error()
	}
	switch {
	case nc.Opts.MaxReconnect >= 0:
		text += "; with nats.MaxReconnects(-1) it is tried again for ever"
	case !nc.Opts.IgnoreAuthErrorAbort:
		text += "; with nats.IgnoreAuthErrorAbort() a refused login is tried again"
	}
	return fmt.Errorf("the connection to NATS was %w%s", Err, text)
}

// Pool returns an Err where the error comes from a pool that was closed, else nil.
func Pool(err error) error {
	if errors.Is(err, puddle.ErrClosedPool) {
		return fmt.Errorf("the pool of database connections was %w", Err)
	}
	return nil
}

// Cause returns the Err that a context was cancelled with, else nil.
func Cause(ctx context.Context) error {
	if err := context.Cause(ctx); errors.Is(err, Err) {
		return err
	}
	return nil
}

// Rehear connects anew where no answers come since the right to hear was refused: the server has forgotten the client's subscription for
// answers. The client renews it with a new connection alone, also when the right is back.
func Rehear(nc *nats.Conn) {
	if e := nc.LastError(); errors.Is(e, nats.ErrPermissionViolation) && strings.Contains(e.Error(), "for Subscription to ") {
		_ = nc.ForceReconnect() // it may be closed
	}
}
