package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
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
	HTTPUsersFile   string   `name:"http-users-file" help:"File with a line for each user, 'ROLE KIND NAME SECRET', such as 'operate password alice s3cret', or for a trusted proxy, such as 'operate proxy X-Forwarded-User 10.0.0.0/8'; role read-only or operate, kind password, token or proxy." placeholder:"FILE" type:"existingfile"`
	HTTPToken       string   `name:"http-token" help:"Bearer token that may look and act, 'token' in the audit; better given by POSTRIDER_HTTP_TOKEN." placeholder:"TOKEN"`
	HTTPReadOnly    bool     `name:"http-read-only" help:"Refuse all actions."`
	HTTPShowPayload bool     `name:"http-show-payload" help:"Show payloads and metadata to those who may act."`
	HTTPHost        []string `name:"http-host" help:"Further host name under which the monitor may be addressed, path under which a proxy publishes it, or both; repeatable." placeholder:"NAME/PATH"`
	HTTPEnvironment string   `name:"http-environment" help:"Name of the environment, shown as a banner." placeholder:"NAME"`
}

func (f httpFlags) auth() (ui.Auth, error) {
	var auth ui.Auth
	if f.HTTPUsersFile != "" {
		var err error
		if auth, err = ui.ReadAuth(f.HTTPUsersFile); err != nil {
			return ui.Auth{}, fmt.Errorf("%w: --http-users-file: %w", errRefused, err)
		}
	}
	if f.HTTPToken != "" {
		auth.Tokens = append(auth.Tokens, ui.Token{Value: f.HTTPToken, Name: "token", Access: ui.AccessOperate})
	}
	return auth, nil
}

// published are the names under which the monitor may be addressed, and the path under which a proxy publishes it.
func (f httpFlags) published() (hosts []string, base string, err error) {
	for _, text := range f.HTTPHost {
		name, _, _ := strings.Cut(text, "/")
		path := text[len(name):]
		if name != "" || path == "" {
			hosts = append(hosts, name)
		}
		if base != "" && path != "" && base != path {
			return nil, "", fmt.Errorf("%w: --http-host names two paths, %s and %s; a monitor has one", errRefused, base, path)
		}
		base = cmp.Or(base, path)
	}
	return hosts, base, nil
}

// validate refuses what can be known to be wrong before anything is started.
func (f httpFlags) validate() error {
	auth, err := f.auth()
	if err != nil || f.HTTPAddr == "off" {
		return err
	}
	hosts, base, err := f.published()
	if err != nil {
		return err
	}
	config := ui.ServerConfig{Addr: f.HTTPAddr, Options: ui.Options{Source: unread{}, Auth: auth, BasePath: base, AllowedHosts: hosts}}
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
	hosts, base, err := f.published()
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
		ReadOnly: f.HTTPReadOnly || operations.lookOnly, BasePath: base,
		AllowedHosts: hosts, Environment: f.HTTPEnvironment,
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
