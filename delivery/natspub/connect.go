package natspub

import (
	"errors"
	"fmt"
	"log/slog"
	neturl "net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// ErrConfig is wrapped by every complaint about settings.
var ErrConfig = errors.New("nats configuration")

// Connect dials with the options that order and fencing need: no reconnect
// buffer, so that a publish which failed cannot be sent later; and reconnecting
// for ever. More options may follow; they are applied last.
func Connect(url, name string, log *slog.Logger, more ...nats.Option) (*nats.Conn, error) {
	options := append([]nats.Option{
		nats.Name(name),
		nats.ReconnectBufSize(-1),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond),
		nats.Timeout(5 * time.Second),
		nats.PingInterval(10 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("disconnected from NATS", "error", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Info("reconnected to NATS", "server", nc.ConnectedServerName())
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.Warn("NATS reported an error", "error", err)
		}),
	}, more...)
	nc, err := nats.Connect(url, options...)
	if err != nil {
		var parse *neturl.Error
		if errors.As(err, &parse) { // it quotes the URL with its password
			err = parse.Err
		}
		return nil, fmt.Errorf("connect to NATS at %s (--nats-url): %w", Redact(url), err)
	}
	return nc, nil
}

// Redact removes user names, passwords and tokens from a list of NATS URLs.
func Redact(urls string) string {
	list := strings.Split(urls, ",")
	for i, u := range list {
		scheme, rest, found := strings.Cut(u, "://")
		if !found {
			scheme, rest = "", u
		} else {
			scheme += "://"
		}
		if at := strings.LastIndex(rest, "@"); at >= 0 {
			rest = "***@" + rest[at+1:]
		}
		list[i] = scheme + rest
	}
	return strings.Join(list, ",")
}
