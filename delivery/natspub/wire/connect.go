package wire

import (
	"fmt"
	"log/slog"
	neturl "net/url"
	"regexp"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// tellAgain lies between two log lines about failing to reconnect: there are several attempts a second.
const tellAgain = time.Minute

// Connect dials with the options that order and fencing need: no reconnect buffer, so that a publish which failed cannot be sent later;
// and reconnecting for ever, also after a refused login: the server may be in setup, or new credentials late. More options may follow;
// they are applied last.
func Connect(url, name string, log *slog.Logger, more ...nats.Option) (*nats.Conn, error) {
	var told time.Time           // when an attempt was told of; callbacks come one after the other
	refused := map[string]bool{} // rights to doorbells that were told of
	tell := func(err error) {
		if time.Since(told) >= tellAgain {
			told = time.Now()
			log.Warn("cannot connect to NATS again", "error", err)
		}
	}
	options := append([]nats.Option{
		nats.Name(name),
		nats.ReconnectBufSize(-1),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(),
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
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { tell(err) }),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			told = time.Time{}
			log.Info("reconnected to NATS", "server", nc.ConnectedServerName())
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			right, bell := refusedBell(err)
			switch {
			case refusesLogin(err): // with each attempt
				tell(err)
			case bell != "": // with each ring, or each time that the connection is made
				if !refused[right+bell] {
					refused[right+bell] = true
					log.Warn("NATS refuses the doorbell: grant this user the right; polls find work meanwhile", "missing", right, "subject", bell, "error", err)
				}
			case sub != nil:
				log.Warn("NATS reported an error", "error", err, "subject", sub.Subject)
			default:
				log.Warn("NATS reported an error", "error", err)
			}
		}),
	}, more...)
	if !readable(url) {
		return nil, fmt.Errorf("%w: --nats-url cannot be read as a URL; write # / ? @ : and %% of a name or password as %%23 %%2F %%3F %%40 %%3A and %%25",
			ErrConfig)
	}
	nc, err := nats.Connect(url, options...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS at %s (--nats-url, --nats-context): %w", Redact(url), err)
	}
	return nc, nil
}

// readable reports whether each of the URLs is one, and the part before an @ its user. A # in a password ends the address: user and
// password would pass for host and port, which errors show.
func readable(urls string) bool {
	for one := range strings.SplitSeq(urls, ",") {
		one = strings.TrimSpace(one)
		if !strings.Contains(one, "://") {
			one = "nats://" + one
		}
		parsed, err := neturl.Parse(one)
		if err != nil || strings.Contains(one, "@") && parsed.User == nil {
			return false
		}
	}
	return true
}

var login = regexp.MustCompile(`((?:^|,)(?:[^,]*?://)?)[^,]*@`)

// Redact removes user names, passwords and tokens from a list of NATS URLs.
func Redact(urls string) string { return login.ReplaceAllString(urls, "${1}***@") }
