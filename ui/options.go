package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/delivery/ops/replay"
	"github.com/postrider/postrider/delivery/ops/resize"
)

// Keys of log records.
const (
	logError  = "error"
	logMethod = "method"
	logPath   = "path"
	logStatus = "status"
	logRemote = "remote"
	logAddr   = "addr"
	logCount  = "count"
)

// Options configures a Handler.
type Options struct {
	// Source reads the snapshots. A *Cache is used as it is, so that NewCollector can share it; another source gets a cache of its own.
	// Required.
	Source Source
	// Auth decides who may look and who may act. Defaults to connections to a loopback address alone.
	Auth Auth
	// Operator reads single messages and acts on them; its role needs an operator's rights. Without one these routes answer 501 and the pages
	// show no actions.
	Operator *ops.Operator
	// Replays lists and makes replays, which Server.Work runs. Its role needs an operator's rights. Defaults to none.
	Replays *replay.Store
	// Resizes changes the number of partitions, in Server.Work. Its role needs the rights of the tables' owner. Defaults to none.
	Resizes *resize.Runner
	// ShowPayload shows payloads and metadata (the producers' headers, trace context) to identities with AccessOperate, even where ReadOnly
	// keeps them from acting. Defaults to false: nobody sees them.
	ShowPayload bool
	// ReadOnly caps everyone's access at AccessReadOnly. Defaults to false.
	ReadOnly bool
	// BasePath is the path under which a proxy that keeps it publishes the monitor, for instance "/ops/outbox". Requests without it are
	// served too, so a proxy that strips it needs nothing. Defaults to "".
	BasePath string
	// Environment is shown as a banner, for instance "production". Defaults to none.
	Environment string
	// AllowedHosts are further host names of requests, without port. A loopback address always allows localhost, 127.0.0.1 and ::1, and by
	// default no other; on other addresses an empty list allows every name, because authentication is mandatory there.
	AllowedHosts []string
	// TrustedOrigins are origins ("https://ops.example.org") that may send actions although they are not the monitor's own, for proxies that
	// rewrite the Host header. Defaults to none.
	TrustedOrigins []string
	// Gatherer is served at /metrics. Without one that path answers 404.
	Gatherer prometheus.Gatherer
	// Ready decides /readyz. Its error is shown without authentication, and without credentials. Defaults to always ready.
	Ready func(ctx context.Context) error
	// Version is the version of this process. Defaults to "unknown".
	Version string
	// Logger receives one record an action, one a failed request, and at debug level one a request. Defaults to discarding.
	Logger *slog.Logger
	// MaxStreams caps the open event streams; further ones get 503 and the page falls back to polling. Defaults to 64.
	MaxStreams int
	// MaxBodyBytes caps a request's body. Defaults to 1 MiB.
	MaxBodyBytes int64
}

const (
	defaultMaxStreams   = 64
	defaultMaxBodyBytes = 1 << 20
)

func (o Options) withDefaults() Options {
	o.Version = cmp.Or(o.Version, "unknown")
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Ready == nil {
		o.Ready = func(context.Context) error { return nil }
	}
	o.MaxStreams = cmp.Or(o.MaxStreams, defaultMaxStreams)
	o.MaxBodyBytes = cmp.Or(o.MaxBodyBytes, defaultMaxBodyBytes)
	return o
}

// Validate names the first field whose value is refused.
func (o Options) Validate() error {
	if o.Source == nil {
		return errors.New("ui: Options.Source is nil")
	}
	if err := o.Auth.Validate(); err != nil {
		return err
	}
	if o.BasePath != "" && (!strings.HasPrefix(o.BasePath, "/") || path.Clean(o.BasePath) != o.BasePath || o.BasePath == "/") {
		return fmt.Errorf("ui: Options.BasePath %q must begin with a slash and end without one", o.BasePath)
	}
	for _, host := range o.AllowedHosts {
		if !plainHost(host) {
			return fmt.Errorf("ui: Options.AllowedHosts: %q is not a host name or address without port", host)
		}
	}
	origins := http.NewCrossOriginProtection()
	for _, origin := range o.TrustedOrigins {
		if err := origins.AddTrustedOrigin(origin); err != nil {
			return fmt.Errorf("ui: Options.TrustedOrigins: %w", err)
		}
	}
	if o.MaxStreams < 0 {
		return fmt.Errorf("ui: Options.MaxStreams %d is negative", o.MaxStreams)
	}
	if o.MaxBodyBytes < 0 {
		return fmt.Errorf("ui: Options.MaxBodyBytes %d is negative", o.MaxBodyBytes)
	}
	return nil
}

func plainHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host != "" && !strings.ContainsAny(host, "/:*@?#[] \t\r\n")
}

// hostAllowed compares the request's host name exactly: a prefix or suffix test would let 127.0.0.1.example.org through.
func hostAllowed(r *http.Request, configured map[string]bool) bool {
	loopback := onLoopback(r)
	if !loopback && len(configured) == 0 {
		return true
	}
	name := hostName(r.Host)
	if configured[name] {
		return true
	}
	return loopback && (name == "localhost" || name == "127.0.0.1" || name == "::1")
}

// hostName returns the host without port and brackets, in lower case.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	return strings.ToLower(host)
}

func hostSet(hosts []string) map[string]bool {
	set := make(map[string]bool, len(hosts))
	for _, host := range hosts {
		set[strings.ToLower(host)] = true
	}
	return set
}
