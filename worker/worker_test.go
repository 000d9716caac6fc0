package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/condition"
	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/ui"
	"github.com/postrider/postrider/worker"
)

// ttl is so long that a handover within it was none of the leases' end.
const ttl = time.Minute

func settings(c *clustertest.Cluster) worker.Config {
	return worker.Config{
		DatabaseURL: c.DatabaseURL, NATSURL: c.NATS.URL(), Lease: lease.Config{TTL: ttl},
		Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
	}
}

// member is a worker that runs in the test's process.
type member struct {
	*worker.Worker
	stop  context.CancelFunc
	ended chan error
}

func start(t *testing.T, cfg worker.Config, before ...func(*worker.Worker)) *member {
	t.Helper()
	w, err := worker.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range before {
		change(w)
	}
	ctx, stop := context.WithCancel(t.Context())
	m := &member{Worker: w, stop: stop, ended: make(chan error, 1)}
	go func() { m.ended <- w.Run(ctx) }()
	t.Cleanup(stop)
	return m
}

// end wants an orderly stop.
func (m *member) end(t *testing.T) {
	t.Helper()
	m.stop()
	if err := m.err(t); err != nil {
		t.Errorf("the worker ended with %v", err)
	}
}

func (m *member) err(t *testing.T) error {
	t.Helper()
	select {
	case err := <-m.ended:
		return err
	case <-time.After(clustertest.Patience):
		t.Fatal("the worker does not end")
		return nil
	}
}

func (m *member) waitOwned(t *testing.T, want int) {
	t.Helper()
	clustertest.Until(t, "the worker has its share", func(context.Context) (bool, error) { return len(m.State().Owned) == want, nil }, nil)
}

// wantNothingLeft wants no trace of workers in the database, nor in the registry.
func wantNothingLeft(t *testing.T, c *clustertest.Cluster, registry prometheus.Registerer) {
	t.Helper()
	for _, sql := range []string{
		`SELECT count(*) FROM outbox_workers`, `SELECT count(*) FROM outbox_partitions WHERE lease_owner IS NOT NULL`,
	} {
		if n := c.Count(t, sql); n != 0 {
			t.Errorf("%s: %d", sql, n)
		}
	}
	clustertest.Until(t, "the server has seen all sessions end", func(ctx context.Context) (bool, error) {
		var n int
		err := c.Pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'postrider %'`).Scan(&n)
		return n == 0, err
	}, nil)
	families, err := registry.(prometheus.Gatherer).Gather() //nolint:errcheck // a registry is both
	if err != nil || len(families) != 0 {
		t.Errorf("%d families of metrics are left: %v", len(families), err)
	}
}

// Two workers share the partitions under load; one ends and the other has all of them long before leases run out.
func TestWorkersOfOneProcessShareAndHandOver(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, clustertest.Config{Partitions: 16})
	s := c.Subscribe(t, nil)
	one, two := settings(c), settings(c)
	first, second := start(t, one), start(t, two)
	first.waitOwned(t, 8)
	second.waitOwned(t, 8)
	c.Produce(t, clustertest.Load{})
	s.WaitReceived(t, 300)
	if err := first.Ready(t.Context()); err != nil {
		t.Errorf("not ready: %v", err)
	}
	began := time.Now()
	first.end(t)
	second.waitOwned(t, 16)
	if took := time.Since(began); took > ttl/2 {
		t.Errorf("the handover took %s", took)
	}
	s.WaitReceived(t, 600)
	c.Verify(t)
	if a, b := first.Stats().Published, second.Stats().Published; a == 0 || b == 0 {
		t.Errorf("they published %d and %d", a, b)
	}
	second.end(t)
	wantNothingLeft(t, c, one.Registerer)
	wantNothingLeft(t, c, two.Registerer)
}

// A program may run a worker again, with the same registry, and with neither leasing nor a polling interval to wait for.
func TestRunOnce(t *testing.T) {
	t.Parallel()
	for name, alone := range map[string]bool{"with leasing": false, "alone": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clustertest.New(t, clustertest.Config{Partitions: 8})
			c.Backlog(t, 500)
			c.Subscribe(t, nil)
			cfg := settings(c)
			cfg.Once, cfg.Alone = true, alone
			for range 2 {
				if err := worker.Run(t.Context(), cfg); err != nil {
					t.Fatal(err)
				}
			}
			wantNothingLeft(t, c, cfg.Registerer)
			c.Verify(t)
		})
	}
}

// Without a poll for a minute, what was committed is delivered when the program rings.
func TestRing(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, clustertest.Config{Partitions: 4})
	cfg := settings(c)
	cfg.Delivery.PollInterval, cfg.Delivery.ExtentInterval, cfg.Delivery.SweepInterval = time.Minute, time.Minute, time.Minute
	w := start(t, cfg)
	w.waitOwned(t, 4)
	c.Backlog(t, 1)
	w.Ring()
	clustertest.Until(t, "it has nothing to do", func(context.Context) (bool, error) { return w.Stats().Published == 1, nil }, nil)
	c.Backlog(t, 10)
	began := time.Now()
	w.Ring()
	clustertest.Until(t, "it delivers", func(context.Context) (bool, error) { return w.Stats().Published == 11, nil }, nil)
	if took := time.Since(began); took > time.Minute/2 {
		t.Errorf("it took %s", took)
	}
	w.end(t)
}

// A worker that is alone ends with an error when another one takes its partitions, and leaves the rest of the program be.
func TestAWorkerAloneGivesWay(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, clustertest.Config{Partitions: 4})
	cfg := settings(c)
	cfg.Alone = true
	c.Backlog(t, 1)
	alone := start(t, cfg)
	clustertest.Until(t, "it delivers", func(context.Context) (bool, error) { return alone.Stats().Published == 1, nil }, nil)
	other := start(t, settings(c))
	other.waitOwned(t, 4)
	for n := 0; n < 100 && len(alone.ended) == 0; n++ { // it gives way when it writes: where the other one is quicker, it is given the next
		c.Backlog(t, 1)
		c.WaitDrained(t)
	}
	if err := alone.err(t); err == nil || !strings.Contains(err.Error(), "another worker took the partitions over") {
		t.Errorf("it ended with %v", err)
	}
	other.end(t)
	wantNothingLeft(t, c, cfg.Registerer)
}

// The monitor listens once New has returned, whether Run follows or not, and Ready answers for the worker.
func TestTheMonitorEndsWithTheWorker(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, clustertest.Config{Partitions: 4})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: clustertest.Patience}
	ask := func(url string, into any) int { // nil: the answer is for nobody
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(request)
		if err != nil {
			return 0
		}
		defer answer.Body.Close()
		if into != nil {
			if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
				t.Fatal(err)
			}
		}
		return answer.StatusCode
	}
	status := func(url string) int { return ask(url, nil) }
	for _, how := range []struct{ run, alone bool }{{}, {run: true}, {run: true, alone: true}} {
		cfg := settings(c)
		cfg.Monitor, cfg.Alone = &ui.ServerConfig{Addr: "127.0.0.1:0"}, how.alone
		w, err := worker.New(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		url := w.Monitor().URL()
		if how.run {
			ctx, stop := context.WithCancel(t.Context())
			m := &member{Worker: w, stop: stop, ended: make(chan error, 1)}
			go func() { m.ended <- w.Run(ctx) }()
			for _, path := range []string{"readyz", "metrics", "api/v1/summary"} {
				if got := status(url + path); got != http.StatusOK {
					t.Errorf("/%s answers %d", path, got)
				}
			}
			resizes := http.StatusOK
			if how.alone { // it would give its partitions to itself
				resizes = http.StatusNotImplemented
			}
			if how.alone { // it holds no lease, and delivers all of it
				var body ui.SummaryBody
				ask(url+"api/v1/summary", &body)
				if body.Partitions.Owned != 4 || body.Workers.Active != 1 {
					t.Errorf("the monitor of a worker without leasing says %+v and %+v, want all owned by one", body.Workers, body.Partitions)
				}
			}
			if got := status(url + "api/v1/partitions/resize"); got != resizes {
				t.Errorf("alone %t: the monitor answers %d to who asks for resizes", how.alone, got)
			}
			m.end(t)
		}
		w.Close()
		if got := status(url + "healthz"); got != 0 {
			t.Errorf("run %t: the monitor answers %d after the end", how.run, got)
		}
		wantNothingLeft(t, c, cfg.Registerer)
	}
}

// planted is a password, which no error shows.
const planted = "pl4nted"

// listening is an address that is taken.
func listening(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

func TestErrorsNameTheField(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, clustertest.Config{Partitions: 8, NoStream: true})
	taken := prometheus.NewRegistry()
	taken.MustRegister(condition.NewBoard(slog.New(slog.DiscardHandler))) // as another worker does
	for name, test := range map[string]struct {
		change  func(*worker.Config)
		refused bool
		says    []string
	}{
		"unreadable":       {func(c *worker.Config) { c.DatabaseURL = "postgres://u:" + planted + "@h:port/x" }, true, []string{"DatabaseURL", "port"}},
		"database away":    {func(c *worker.Config) { c.DatabaseURL = "postgres://u:" + planted + "@127.0.0.1:1/x" }, false, []string{"DatabaseURL", "127.0.0.1:1"}},
		"schema":           {func(c *worker.Config) { c.Schema = `a"b` }, true, []string{"Schema", `a\"b`}},
		"no such schema":   {func(c *worker.Config) { c.Schema = "elsewhere" }, false, []string{"Schema", "postrider migrate up"}},
		"too many":         {func(c *worker.Config) { c.Partitions = 40000 }, true, []string{"Partitions", "32767", "40000"}},
		"other partitions": {func(c *worker.Config) { c.Partitions = 32 }, true, []string{"Partitions", "8", "32"}},
		"acknowledgements": {func(c *worker.Config) { c.AckTimeout, c.Stream.Name, c.Stream.Create = time.Millisecond, "OTHER", true }, true, []string{"AckTimeout", "10ms"}},
		"lease":            {func(c *worker.Config) { c.Lease.TTL = time.Millisecond }, true, []string{"Lease", "500ms"}},
		"heartbeat":        {func(c *worker.Config) { c.Heartbeat.TTL = time.Millisecond }, true, []string{"Heartbeat", "500ms"}},
		"coordinator":      {func(c *worker.Config) { c.Coordinator.Interval = time.Millisecond }, true, []string{"Coordinator", "50ms"}},
		"delivery":         {func(c *worker.Config) { c.Delivery.BatchSize = -1 }, true, []string{"Delivery", "BatchSize"}},
		"retries":          {func(c *worker.Config) { c.Delivery.Retry.MaxAttempts = -1 }, true, []string{"Delivery.Retry", "RetryPolicy"}},
		"open monitor":     {func(c *worker.Config) { c.Monitor = &ui.ServerConfig{Addr: "0.0.0.0:0"} }, true, []string{"Monitor", "authentication"}},
		"taken port": {func(c *worker.Config) {
			c.Monitor, c.Stream.Name, c.Stream.Create = &ui.ServerConfig{Addr: listening(t)}, "OTHER", true
		}, false, []string{"Monitor", "in use"}},
		"broker away":       {func(c *worker.Config) { c.NATSURL = "nats://u:" + planted + "@127.0.0.1:1" }, false, []string{"NATSURL", "127.0.0.1:1"}},
		"stream missing":    {func(*worker.Config) {}, false, []string{"Stream", "EVENTS", "--create-stream"}},
		"registry of other": {func(c *worker.Config) { c.Registerer, c.Stream.Name, c.Stream.Create = taken, "OTHER", true }, true, []string{"Registerer", "WrapRegistererWith"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := settings(c)
			test.change(&cfg)
			_, err := worker.New(t.Context(), cfg)
			if err == nil || errors.Is(err, worker.ErrConfig) != test.refused {
				t.Fatalf("error %v, want one that is ErrConfig: %t", err, test.refused)
			}
			for _, text := range test.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("it does not say %q: %v", text, err)
				}
			}
			if strings.Contains(err.Error(), planted) {
				t.Errorf("it shows the password: %v", err)
			}
			if cfg.Registerer != prometheus.Registerer(taken) {
				wantNothingLeft(t, c, cfg.Registerer)
			}
		})
	}
}

// The program's own options may not have the worker give its connection up.
func TestTheConnectionIsNeverGivenUp(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, clustertest.Config{Partitions: 4})
	connected := make(chan nats.Options, 1)
	cfg := settings(c)
	cfg.NATSOptions = []nats.Option{nats.MaxReconnects(1), nats.ConnectHandler(func(nc *nats.Conn) { connected <- nc.Opts })}
	w, err := worker.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	opts := <-connected
	w.Close()
	if opts.MaxReconnect >= 0 || opts.ReconnectBufSize >= 0 {
		t.Errorf("%d attempts to connect again, a buffer of %d bytes", opts.MaxReconnect, opts.ReconnectBufSize)
	}
}

// Whatever the ordering, a worker publishes nothing that may vanish.
func TestAWorkerWantsWhatIsQueuedDurable(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, clustertest.Config{Partitions: 4})
	set(t, c, `ALTER TABLE outbox_ready DISABLE TRIGGER outbox_durable`)
	for _, ordering := range []delivery.Ordering{delivery.OrderPartition, delivery.OrderStream} {
		cfg := settings(c)
		cfg.Delivery.Ordering = ordering
		if _, err := worker.New(t.Context(), cfg); !errors.Is(err, worker.ErrConfig) || !strings.Contains(err.Error(), "ENABLE ALWAYS TRIGGER outbox_durable") {
			t.Errorf("ordering %s: %v", ordering, err)
		}
	}
}
