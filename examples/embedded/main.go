package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/ui"
	"github.com/postrider/postrider/worker"
)

// mount is where the monitor is.
const mount = "/admin/outbox"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, program{
		database: os.Getenv("DATABASE_URL"), nats: os.Getenv("NATS_URL"), address: "127.0.0.1:8081", out: os.Stdout,
		people: users{"admin": {rand.Text(), ui.AccessOperate}, "guest": {rand.Text(), ui.AccessReadOnly}},
	})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "embedded:", err)
		os.Exit(1)
	}
}

// program is what the environment says.
type program struct {
	database, nats, address string
	people                  users
	out                     io.Writer
	listening               func(url string) // may be nil
}

func run(ctx context.Context, p program) error {
	pool, err := pgxpool.New(ctx, p.database)
	if err != nil {
		return errors.New("DATABASE_URL cannot be read as an address") // the error would show it, with its password
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, createOrders); err != nil {
		return err
	}
	relay, err := worker.New(ctx, worker.Config{
		DatabaseURL: p.database, NATSURL: p.nats,
		Stream: streams.StreamConfig{Create: true},
		// No Addr: it is mounted below, in a server that is there anyway.
		Monitor: &ui.ServerConfig{Options: ui.Options{
			Environment: "example", ShowPayload: true, // to those who may act
			Auth: ui.Auth{Authorize: p.people.access, Identify: name},
		}},
	})
	if err != nil {
		return err
	}
	defer relay.Close() // for the errors before it runs
	producer, err := outbox.New(outbox.Config{})
	if err != nil {
		return err
	}
	monitor := relay.Monitor().Handler()
	mux := http.NewServeMux()
	mux.Handle("POST /orders", &orders{pool: pool, producer: producer, ring: relay.Ring})
	mux.Handle(mount+"/", login(p.people, http.StripPrefix(mount, monitor)))
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", p.address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	// Open event streams would keep Shutdown waiting.
	server.RegisterOnShutdown(monitor.CloseStreams)
	p.tell("http://" + listener.Addr().String())
	return together(ctx, server, listener, relay)
}

func (p program) tell(url string) {
	for name, u := range p.people {
		fmt.Fprintf(p.out, "%s%s/ as %s with password %s\n", url, mount, name, u.password)
	}
	if p.listening != nil {
		p.listening(url)
	}
}

// together serves and delivers until the context or one of the two ends. The worker stops last: what the last requests committed still
// leaves from here, or from whoever has the partitions next.
func together(ctx context.Context, server *http.Server, listener net.Listener, relay *worker.Worker) error {
	group, ended := errgroup.WithContext(ctx)
	delivering, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group.Go(func() error { return relay.Run(delivering) })
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go(func() error {
		defer stop()
		<-ended.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return server.Shutdown(grace)
	})
	return group.Wait()
}
