package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
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
	HTTPAuth        string   `name:"http-auth" help:"name:password that may look and act; better given by POSTRIDER_HTTP_AUTH." placeholder:"NAME:PASSWORD"`
	HTTPAuthFile    string   `name:"http-auth-file" help:"File with name:password lines." placeholder:"FILE" type:"existingfile"`
	HTTPToken       string   `name:"http-token" help:"Bearer token that may look and act; better given by POSTRIDER_HTTP_TOKEN." placeholder:"TOKEN"`
	HTTPReadOnly    bool     `name:"http-read-only" help:"Refuse all actions."`
	HTTPBasePath    string   `name:"http-base-path" help:"Path under which a proxy publishes the monitor." placeholder:"/PATH"`
	HTTPHost        []string `name:"http-host" help:"Further host name under which the monitor may be addressed; repeatable." placeholder:"NAME"`
	HTTPEnvironment string   `name:"http-environment" help:"Name of the environment, shown as a banner." placeholder:"NAME"`
}

func (f httpFlags) auth() (ui.Auth, error) {
	var auth ui.Auth
	if f.HTTPAuth != "" {
		user, err := ui.ParseUser(f.HTTPAuth, ui.AccessOperate)
		if err != nil {
			return ui.Auth{}, fmt.Errorf("%w: --http-auth: %w", errRefused, err)
		}
		auth.Users = append(auth.Users, user)
	}
	if f.HTTPAuthFile != "" {
		users, err := ui.ReadUsers(f.HTTPAuthFile, ui.AccessOperate)
		if err != nil {
			return ui.Auth{}, fmt.Errorf("%w: --http-auth-file: %w", errRefused, err)
		}
		auth.Users = append(auth.Users, users...)
	}
	if f.HTTPToken != "" {
		auth.Tokens = append(auth.Tokens, ui.Token{Value: f.HTTPToken, Access: ui.AccessOperate})
	}
	return auth, nil
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
func (f httpFlags) newMonitor(ctx context.Context, source ui.Source, registry *prometheus.Registry, ready func(context.Context) error, log *slog.Logger) (*ui.Server, error) {
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
		Source: cache, Auth: auth, ReadOnly: f.HTTPReadOnly, BasePath: f.HTTPBasePath,
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
