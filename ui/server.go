package ui

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/postrider/postrider/ui/act"
)

// ErrUnauthenticatedBind is returned when a server would listen beyond loopback without authentication.
var ErrUnauthenticatedBind = errors.New("refusing to listen beyond loopback without authentication")

// ServerConfig configures a Server.
type ServerConfig struct {
	// Addr is the TCP address to listen on, "host:port"; an empty host means
	// all interfaces and port 0 any free one. Defaults to "127.0.0.1:8080".
	Addr string
	// AnyPort takes any free port of Addr's host where Addr is taken. Defaults to false.
	AnyPort bool
	// Options configures the handler.
	Options Options
	// TLS, when set, must hold a certificate or a way to get one. Defaults to plain HTTP.
	TLS *tls.Config
	// ReadHeaderTimeout bounds the reading of a request's header. Defaults to 5 s.
	ReadHeaderTimeout time.Duration
	// ReadTimeout bounds the reading of a whole request. Defaults to 15 s.
	ReadTimeout time.Duration
	// WriteTimeout bounds an answer; event streams get it for each frame instead. Defaults to 30 s.
	WriteTimeout time.Duration
	// IdleTimeout bounds the wait for a next request. Defaults to 30 s.
	IdleTimeout time.Duration
	// ShutdownTimeout bounds the wait for running requests when Run's context ends. Defaults to 5 s.
	ShutdownTimeout time.Duration
	// MaxHeaderBytes bounds a request's header. Defaults to 64 KiB.
	MaxHeaderBytes int
	// MaxConnections bounds the open connections, MaxConnectionsFrom those from one address: a new one evicts the one that has waited
	// longest. Defaults to 512 and 256.
	MaxConnections, MaxConnectionsFrom int
}

const (
	defaultAddr              = "127.0.0.1:8080"
	defaultReadHeaderTimeout = 5 * time.Second
	defaultReadTimeout       = 15 * time.Second
	defaultWriteTimeout      = 30 * time.Second
	defaultIdleTimeout       = 30 * time.Second
	defaultShutdownTimeout   = 5 * time.Second
	defaultMaxHeaderBytes    = 64 << 10
	defaultConnections       = 512
	defaultConnectionsFrom   = 256
)

func (c ServerConfig) withDefaults() ServerConfig {
	c.Addr = cmp.Or(c.Addr, defaultAddr)
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.ReadHeaderTimeout, defaultReadHeaderTimeout},
		{&c.ReadTimeout, defaultReadTimeout},
		{&c.WriteTimeout, defaultWriteTimeout},
		{&c.IdleTimeout, defaultIdleTimeout},
		{&c.ShutdownTimeout, defaultShutdownTimeout},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	c.MaxHeaderBytes = cmp.Or(c.MaxHeaderBytes, defaultMaxHeaderBytes)
	c.MaxConnections = cmp.Or(c.MaxConnections, defaultConnections)
	c.MaxConnectionsFrom = cmp.Or(c.MaxConnectionsFrom, min(defaultConnectionsFrom, c.MaxConnections))
	return c
}

// Validate names the first field whose value is refused. It resolves no names; Listen does.
func (c ServerConfig) Validate() error {
	c = c.withDefaults()
	host, _, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return fmt.Errorf("ui: ServerConfig.Addr: %w", err)
	}
	for name, d := range map[string]time.Duration{
		"ReadHeaderTimeout": c.ReadHeaderTimeout, "ReadTimeout": c.ReadTimeout, "WriteTimeout": c.WriteTimeout,
		"IdleTimeout": c.IdleTimeout, "ShutdownTimeout": c.ShutdownTimeout,
	} {
		if d < 0 {
			return fmt.Errorf("ui: ServerConfig.%s %v is negative", name, d)
		}
	}
	if c.MaxHeaderBytes < 0 {
		return fmt.Errorf("ui: ServerConfig.MaxHeaderBytes %d is negative", c.MaxHeaderBytes)
	}
	if c.MaxConnections < 0 || c.MaxConnectionsFrom < 0 || c.MaxConnectionsFrom > c.MaxConnections {
		return fmt.Errorf("ui: ServerConfig.MaxConnectionsFrom %d and MaxConnections %d must ascend from 1", c.MaxConnectionsFrom, c.MaxConnections)
	}
	if err := c.Options.Validate(); err != nil {
		return err
	}
	if ip := net.ParseIP(host); !c.Options.Auth.Enabled() && (host == "" || (ip != nil && !ip.IsLoopback())) {
		return unauthenticatedBind(c.Addr)
	}
	return nil
}

func unauthenticatedBind(addr string) error {
	return fmt.Errorf("ui: %w: %s is not a loopback address; set --http-users-file (POSTRIDER_HTTP_USERS_FILE) or "+
		"--http-token (POSTRIDER_HTTP_TOKEN), or bind --http-addr (POSTRIDER_HTTP_ADDR) to 127.0.0.1", ErrUnauthenticatedBind, addr)
}

// Server serves the monitor on a listener of its own.
type Server struct {
	config  ServerConfig
	handler *Handler
	rights  *act.Rights // nil: the options count
	renewal time.Duration
	server  *http.Server

	mu       sync.Mutex
	listener net.Listener
}

// NewServer builds the handler and the server around it. It opens nothing yet.
// The error wraps ErrUnauthenticatedBind when the address needs authentication.
func NewServer(config ServerConfig) (*Server, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	handler, err := NewHandler(config.Options)
	if err != nil {
		return nil, err
	}
	s := &Server{config: config, handler: handler, renewal: renewal}
	s.server = &http.Server{
		Handler:           serving(handler),
		ConnContext:       connected,
		TLSConfig:         config.TLS,
		ReadHeaderTimeout: config.ReadHeaderTimeout,
		ReadTimeout:       config.ReadTimeout,
		WriteTimeout:      config.WriteTimeout,
		IdleTimeout:       config.IdleTimeout,
		MaxHeaderBytes:    config.MaxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(handler.options.Logger.Handler(), slog.LevelDebug),
	}
	s.server.RegisterOnShutdown(handler.CloseStreams)
	return s, nil
}

// Handler returns the handler that the server serves.
func (s *Server) Handler() *Handler { return s.handler }

// Listen opens the listener, so that the address is known, and taken, before Run. Calling it again returns the same address.
func (s *Server) Listen(ctx context.Context) (net.Addr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		return s.listener.Addr(), nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.config.Addr)
	if s.config.AnyPort && errors.Is(err, syscall.EADDRINUSE) {
		host, _, _ := net.SplitHostPort(s.config.Addr) // Validate has read it
		listener, err = new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	}
	if err != nil {
		return nil, fmt.Errorf("ui: listen on %s: %w", s.config.Addr, err)
	}
	// A name may have resolved to anything, so the listener has the last word.
	tcp, ok := listener.Addr().(*net.TCPAddr)
	if loopback := ok && tcp.IP.IsLoopback(); !loopback {
		if !s.config.Options.Auth.Enabled() {
			return nil, errors.Join(unauthenticatedBind(listener.Addr().String()), listener.Close())
		}
		if s.config.TLS == nil {
			s.handler.options.Logger.WarnContext(ctx, "monitor listens beyond loopback without TLS; put a proxy that encrypts before it",
				logAddr, listener.Addr().String())
		}
	}
	s.listener = newConnections(listener, s.config.MaxConnections, s.config.MaxConnectionsFrom, s.handler.options.Logger)
	return listener.Addr(), nil
}

// URL returns the address to open in a browser; empty before Listen.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return ""
	}
	scheme := "http"
	if s.config.TLS != nil {
		scheme = "https"
	}
	host, port, err := net.SplitHostPort(s.listener.Addr().String())
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return scheme + "://" + net.JoinHostPort(host, port) + strings.TrimSuffix(s.config.Options.BasePath, "/") + "/"
}

// Close ends a server that is not run: its listener, and the event streams of its handler where that is mounted elsewhere. Run ends
// both by itself.
func (s *Server) Close() {
	s.handler.CloseStreams()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		_ = s.listener.Close()
	}
}

// Work runs the requested replays and resizes (Options.Replays, Options.Resizes) until ctx ends, and returns nil; with ReadOnly, or without
// the rights, none. It checks rights and relation every five seconds. Run calls it: it is for a handler that is served elsewhere.
func (s *Server) Work(ctx context.Context) error {
	for ctx.Err() == nil {
		s.work(ctx)
	}
	return nil
}

// work runs requests by the present means until others replace them.
func (s *Server) work(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	desk := s.handler.desk
	m := desk.Means()
	if m.Replays != nil && m.Replayable && !m.ReadOnly {
		all.Go(func() { m.Replays.Serve(ctx, desk.Logger) })
	}
	if m.Resizes != nil && !m.ReadOnly {
		all.Go(func() { m.Resizes.Serve(ctx) })
	}
	ticker := time.NewTicker(s.renewal)
	defer ticker.Stop()
	for m == desk.Means() {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if s.rights != nil {
				_ = s.rights.Renew(ctx, desk) // snapshots show an outage of the database
			}
		}
	}
}

// Run serves until ctx ends, then ends the event streams, waits up to ShutdownTimeout for running requests and returns nil. It includes
// Work, and calls Listen if nobody has. A server runs once.
func (s *Server) Run(ctx context.Context) error {
	if _, err := s.Listen(ctx); err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() { _ = s.Work(working) })
	defer work.Wait()
	defer stop()
	served := make(chan error, 1)
	go func() {
		if s.config.TLS != nil {
			served <- s.server.ServeTLS(s.listener, "", "")
			return
		}
		served <- s.server.Serve(s.listener)
	}()
	select {
	case err := <-served:
		return fmt.Errorf("ui: serve: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.config.ShutdownTimeout)
	defer cancel()
	err := s.server.Shutdown(grace)
	if err != nil {
		err = errors.Join(fmt.Errorf("ui: requests still ran after %v: %w", s.config.ShutdownTimeout, err), s.server.Close())
	}
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}
