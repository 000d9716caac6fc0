package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/heartbeat"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
	"github.com/postrider/postrider/ui"
)

const (
	address = "127.0.0.1:8081"
	mount   = "/admin/outbox"
	schema  = "public"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "embedded:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	config, err := pgxpool.ParseConfig(os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	// Whoever may create functions in a schema of the role's path does not say what the monitor's statements mean.
	config.ConnConfig.RuntimeParams["search_path"] = "pg_catalog, pg_temp"
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	people := users{"admin": {rand.Text(), ui.AccessOperate}, "guest": {rand.Text(), ui.AccessReadOnly}}
	monitor, err := newMonitor(ctx, pool, people)
	if err != nil {
		return err
	}

	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "This is the program's own page. The outbox is at "+mount+"/.")
	})
	mux.Handle(mount+"/", login(people, http.StripPrefix(mount, monitor)))

	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	// Open event streams would keep Shutdown waiting.
	server.RegisterOnShutdown(monitor.CloseStreams)
	ended := make(chan error, 1)
	go func() { ended <- server.ListenAndServe() }()
	for name, u := range people {
		fmt.Printf("http://%s%s/ as %s with password %s\n", address, mount, name, u.password)
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(stop); err != nil {
		return err
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// newMonitor composes the monitor from the stores of the packages that own the
// tables, which only read here, and an operator, which acts.
func newMonitor(ctx context.Context, pool *pgxpool.Pool, people users) (*ui.Handler, error) {
	workers, err := heartbeat.NewStore(pool, schema)
	if err != nil {
		return nil, err
	}
	leases, err := lease.NewStore(pool, schema)
	if err != nil {
		return nil, err
	}
	deliveries, err := delivery.NewStore(ctx, pool, schema, delivery.Relation{})
	if err != nil {
		return nil, err
	}
	source, err := ui.NewSource(ui.SourceConfig{
		Workers: workers, Leases: leases, Deliveries: deliveries, Strategy: partition.Modulo,
	})
	if err != nil {
		return nil, err
	}
	// Page, API and metrics share one cache: the database is read once a second
	// at most, however many ask.
	cache, err := ui.NewCache(source, ui.CacheConfig{})
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(ui.NewCollector(cache)); err != nil {
		return nil, err
	}
	operator, err := ops.New(ctx, pool, schema, delivery.Relation{})
	if err != nil {
		return nil, err
	}
	return ui.NewHandler(ui.Options{
		Source:      cache,
		Operator:    operator,
		ShowPayload: true, // to those who may act
		Environment: "example",
		Gatherer:    registry,
		Ready:       pool.Ping,
		Auth: ui.Auth{
			Authorize: people.access,
			Identify: func(r *http.Request) string {
				name, _, _ := r.BasicAuth() // Authorize let it in
				return name
			},
		},
	})
}

// users stand for the program's own, by name.
type users map[string]struct {
	password string
	access   ui.Access
}

// access is what whoever sent the request may do.
func (u users) access(r *http.Request) ui.Access {
	name, given, _ := r.BasicAuth()
	known, ok := u[name]
	if !ok || subtle.ConstantTimeCompare([]byte(given), []byte(known.password)) != 1 {
		return ui.AccessNone
	}
	return known.access
}

// login stands for the program's own way to know its users. Health checks pass:
// whatever probes them has no password.
func login(people users, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case mount + "/healthz", mount + "/readyz":
		default:
			if people.access(r) == ui.AccessNone {
				w.Header().Set("WWW-Authenticate", `Basic realm="example"`)
				http.Error(w, "log in first", http.StatusUnauthorized)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}
