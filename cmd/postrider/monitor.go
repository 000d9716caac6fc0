package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/internal/buildinfo"
	"github.com/postrider/postrider/ui"
)

// defaultHTTPAddr is where the monitor listens when nothing was chosen. When it
// is taken, any free port is: several workers may run on one machine.
const defaultHTTPAddr = "127.0.0.1:8080"

// httpFlags say where the monitor listens and who may use it.
type httpFlags struct {
	HTTPAddr        string   `name:"http-addr" help:"Address of monitor, API, health and metrics; 'off' for none. Default 127.0.0.1:8080, or a free port where that is taken." placeholder:"HOST:PORT"`
	HTTPUsersFile   string   `name:"http-users-file" help:"File with a line for each user, 'ROLE KIND NAME SECRET', such as 'operate password alice s3cret'; role read-only or operate, kind password or token." placeholder:"FILE" type:"existingfile"`
	HTTPToken       string   `name:"http-token" help:"Bearer token that may look and act, 'token' in the audit; better given by POSTRIDER_HTTP_TOKEN." placeholder:"TOKEN"`
	HTTPProxyHeader string   `name:"http-proxy-header" help:"Header in which a trusted proxy names the user whom it let in." placeholder:"NAME"`
	HTTPProxyFrom   []string `name:"http-proxy-from" help:"Address or range from which that header is believed; repeatable." placeholder:"CIDR"`
	HTTPProxyAccess string   `name:"http-proxy-access" help:"What those may do whom the proxy names: ${enum}." enum:"read-only,operate" default:"operate"`
	HTTPReadOnly    bool     `name:"http-read-only" help:"Refuse all actions."`
	HTTPShowPayload bool     `name:"http-show-payload" help:"Show payloads and metadata to those who may act."`
	HTTPBasePath    string   `name:"http-base-path" help:"Path under which a proxy publishes the monitor." placeholder:"/PATH"`
	HTTPHost        []string `name:"http-host" help:"Further host name under which the monitor may be addressed; repeatable." placeholder:"NAME"`
	HTTPEnvironment string   `name:"http-environment" help:"Name of the environment, shown as a banner." placeholder:"NAME"`
}

func (f httpFlags) auth() (ui.Auth, error) {
	var auth ui.Auth
	if f.HTTPToken != "" {
		auth.Tokens = append(auth.Tokens, ui.Token{Value: f.HTTPToken, Name: "token", Access: ui.AccessOperate})
	}
	if f.HTTPUsersFile != "" {
		users, tokens, err := ui.ReadUsers(f.HTTPUsersFile)
		if err != nil {
			return ui.Auth{}, fmt.Errorf("%w: --http-users-file: %w", errRefused, err)
		}
		auth.Users, auth.Tokens = users, append(auth.Tokens, tokens...)
	}
	err := f.proxy(&auth)
	return auth, err
}

// proxy reads who is trusted to say who somebody is.
func (f httpFlags) proxy(auth *ui.Auth) error {
	switch {
	case f.HTTPProxyHeader == "" && len(f.HTTPProxyFrom) > 0:
		return fmt.Errorf("%w: --http-proxy-from needs --http-proxy-header", errRefused)
	case f.HTTPProxyHeader == "":
		return nil
	case len(f.HTTPProxyFrom) == 0:
		return fmt.Errorf("%w: --http-proxy-header needs --http-proxy-from: anybody could send the header", errRefused)
	}
	auth.ProxyHeader, auth.ProxyAccess = f.HTTPProxyHeader, ui.AccessOperate
	if f.HTTPProxyAccess == ui.AccessReadOnly.String() {
		auth.ProxyAccess = ui.AccessReadOnly
	}
	for _, text := range f.HTTPProxyFrom {
		prefix, err := netip.ParsePrefix(text)
		if address, single := netip.ParseAddr(text); single == nil {
			prefix, err = netip.PrefixFrom(address, address.BitLen()), nil
		}
		if err != nil || prefix.Addr().Zone() != "" || prefix.Addr().Is4In6() {
			return fmt.Errorf("%w: --http-proxy-from must be an address or a range such as 10.0.0.0/8, got %q", errRefused, text)
		}
		auth.TrustedProxies = append(auth.TrustedProxies, prefix.Masked())
	}
	return nil
}

// validate refuses what can be known to be wrong before anything is started.
func (f httpFlags) validate() error {
	auth, err := f.auth()
	if err != nil || f.HTTPAddr == "off" {
		return err
	}
	config := ui.ServerConfig{Addr: f.HTTPAddr, Options: ui.Options{
		Source: unread{}, Auth: auth, BasePath: f.HTTPBasePath, AllowedHosts: f.HTTPHost,
	}}
	if err := config.Validate(); err != nil {
		return fmt.Errorf("%w: --http-*: %w", errRefused, err)
	}
	return nil
}

// unread stands for a source that is not there yet.
type unread struct{ ui.Source }

// newMonitor listens already when it returns.
func (f httpFlags) newMonitor(
	ctx context.Context, source ui.Source, operations operations, registry *prometheus.Registry, ready func(context.Context) error, log *slog.Logger,
) (*ui.Server, error) {
	auth, err := f.auth()
	if err != nil {
		return nil, err
	}
	cache, err := ui.NewCache(source, ui.CacheConfig{})
	if err != nil {
		return nil, fmt.Errorf("monitor: %w", err)
	}
	if err := registry.Register(ui.NewCollector(cache)); err != nil {
		return nil, fmt.Errorf("monitor metrics: %w", err)
	}
	config := ui.ServerConfig{Addr: f.HTTPAddr, Options: ui.Options{
		Source: cache, Auth: auth, Operator: operations.operator, ShowPayload: f.HTTPShowPayload,
		ReadOnly: f.HTTPReadOnly || operations.lookOnly, BasePath: f.HTTPBasePath,
		AllowedHosts: f.HTTPHost, Environment: f.HTTPEnvironment,
		Gatherer: registry, Ready: ready, Version: buildinfo.Version(), Logger: log,
	}}
	if f.HTTPAddr == "" {
		config.Addr = defaultHTTPAddr
	}
	server, err := listen(ctx, config)
	if f.HTTPAddr == "" && errors.Is(err, syscall.EADDRINUSE) {
		config.Addr = net.JoinHostPort("127.0.0.1", "0")
		server, err = listen(ctx, config)
	}
	if err != nil {
		return nil, fmt.Errorf("monitor (--http-addr %s): %w", config.Addr, err)
	}
	return server, nil
}

func listen(ctx context.Context, config ui.ServerConfig) (*ui.Server, error) {
	server, err := ui.NewServer(config)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errRefused, err)
	}
	_, err = server.Listen(ctx)
	return server, err
}
