package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"
)

// runCaller is the command caller.
func runCaller(ctx context.Context, p program) error {
	cfg := callerConfig{Callbacks: callbacks(), Log: p.log}
	p.flags.DurationVar(&cfg.Timeout, "timeout", 0, "of one attempt and of one callback (default 5s)")
	p.flags.DurationVar(&cfg.FirstBackoff, "first-backoff", 0, "after the first failure; doubles (default 100ms)")
	p.flags.DurationVar(&cfg.LongestBackoff, "longest-backoff", 0, "bound of the backoff (default 30s)")
	p.flags.IntVar(&cfg.CallbackAttempts, "callback-attempts", 0, "failures after which a callback is dead (default 8)")
	p.flags.BoolVar(&cfg.PassCallbacks, "pass-callbacks", false, "send a target's next calls while a callback of it is failing")
	return p.with(ctx, 0, 0, func(pool *pgxpool.Pool, _ []string) error {
		for name, negative := range map[string]bool{
			"--timeout": cfg.Timeout < 0, "--first-backoff": cfg.FirstBackoff < 0, "--longest-backoff": cfg.LongestBackoff < 0,
			"--callback-attempts": cfg.CallbackAttempts < 0,
		} {
			if negative {
				return fmt.Errorf("%s must not be negative", name)
			}
		}
		if full := cfg.withDefaults(); full.LongestBackoff < full.FirstBackoff {
			return fmt.Errorf("--longest-backoff must be at least --first-backoff (%s), got %s", full.FirstBackoff, full.LongestBackoff)
		}
		nc, err := connect()
		if err != nil {
			return err
		}
		defer nc.Close()
		return serveCalls(ctx, pool, nc, cfg)
	})
}

// serveCalls takes calls in and delivers them until the context ends.
func serveCalls(ctx context.Context, pool *pgxpool.Pool, nc *nats.Conn, cfg callerConfig) error {
	c := newCaller(pool, cfg)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return intake(ctx, pool, nc, c.wake, cfg.Log) })
	group.Go(func() error { return c.run(ctx) })
	return group.Wait()
}

func connect() (*nats.Conn, error) {
	address := os.Getenv("NATS_URL")
	if address == "" {
		return nil, errors.New("NATS_URL is not set; postrider dev prints one")
	}
	nc, err := nats.Connect(address, nats.Name("remotecall example"), nats.MaxReconnects(-1))
	if unreadable := new(url.Error); errors.As(err, &unreadable) {
		return nil, errors.New("NATS_URL cannot be read as an address") // the error would show it, with its password
	}
	return nc, err
}

// closed takes the error of a server that was asked to end for none.
func closed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// runReceiver is the command receiver.
func runReceiver(ctx context.Context, p program) error {
	schema := p.flags.String("schema", "north", "schema of this bank's tables; created if missing")
	listen := p.flags.String("listen", "127.0.0.1:0", "address to listen on")
	sender := p.flags.String("sender", "home", "sender that the token in REMOTECALL_TOKEN belongs to")
	if err := p.flags.Parse(p.args); err != nil {
		return err
	}
	token := os.Getenv("REMOTECALL_TOKEN")
	if token == "" {
		return errors.New("REMOTECALL_TOKEN is not set: the token of the sender")
	}
	pool, err := open(ctx, *schema)
	if err != nil {
		return err
	}
	defer pool.Close()
	bank, err := newBank(ctx, pool, *schema, *sender, token, p)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", *listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	fmt.Fprintf(p.stdout, "listening on http://%s\n", listener.Addr())
	return serveHTTP(ctx, listener, bank)
}

// newBank prepares a bank that receives, with the accounts alice and bob, and lets the sender in.
func newBank(ctx context.Context, pool *pgxpool.Pool, schema, sender, token string, p program) (*receiver, error) {
	bank, err := newReceiver(ctx, pool, schema, procedures(), p.log.With("bank", schema))
	if err != nil {
		return nil, err
	}
	if err := openAccounts(ctx, pool, 0, "alice", "bob"); err != nil {
		return nil, err
	}
	return bank, bank.allow(ctx, sender, token)
}

// serveHTTP serves until the context ends, and lets calls that are being executed end.
func serveHTTP(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), procedureTimeout)
	defer cancel()
	return errors.Join(server.Shutdown(ctx), closed(<-ended))
}
