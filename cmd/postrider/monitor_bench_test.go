package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// The variables of BenchmarkMonitor. `make bench/monitor` sets them.
const (
	benchRows    = "POSTRIDER_BENCH_ROWS"    // of the outbox; without it the benchmark is skipped
	benchSeconds = "POSTRIDER_BENCH_SECONDS" // of measuring; 60 by default
	benchBinary  = "POSTRIDER_BENCH_BINARY"  // another program than this branch's
	benchData    = "POSTRIDER_BENCH_DATA"    // a data directory that is filled once and kept
)

const (
	benchTabs     = 10
	benchRequests = 30
	benchRoute    = 5 * time.Second // a slow route is asked for less often
	// What the monitor may cost: a share of a core, and of the time of each page.
	mostCPU     = 0.02
	mostLatency = 100 * time.Millisecond
)

// monitorRoutes are the addresses that are measured. One that is not there is said to
// be missing and left out. %d is a sequence that waits.
func monitorRoutes() []string {
	routes := []string{
		"/", "/?partitions=table", "/healthz", "/readyz", "/metrics", "/audit", "/ownership", "/topics", "/messages", "/partitions/7", "/messages/%d",
		"/workers/01890000-0000-7000-8000-000000000000/drain",
		"/api/v1/summary", "/api/v1/workers", "/api/v1/partitions", "/api/v1/partitions/7", "/api/v1/throughput",
		"/messages/causes", "/messages/causes?type=nothing", "/streams?stream=stream-77", "/streams?stream=nothing",
		"/api/v1/ownership", "/api/v1/topics", "/api/v1/messages/causes", "/api/v1/audit", "/api/v1/messages", "/api/v1/messages/%d",
	}
	for _, filter := range []string{
		"state=pending", "state=failed", "state=blocked", "state=dead", "state=published", "state=skipped", "state=discarded",
		"partition=7", "partition=7&topic=nothing", "stream=stream-77", "stream=nothing", "topic=shop", "topic=nothing",
		"type=order.paid", "type=nothing", "type=nothing&state=dead", "error_contains=refused", "error_contains=nothing",
		"since=1m", "until=20h", "id=00000000-0000-4000-8000-000000000001", "sequence=%d", "after=%d",
	} {
		routes = append(routes, "/messages?"+filter, "/api/v1/messages?"+filter, "/api/v1/messages?newest_first=true&"+filter)
	}
	for _, filter := range []string{"", "&topic=shop", "&error_contains=nothing", "&type=nothing", "&partition=7&stream=stream-77"} {
		routes = append(routes, "/messages/confirm?all=requeue&state=dead"+filter, "/messages/confirm?all=requeue&state=failed"+filter)
	}
	return append(routes, "/messages?before=%d", "/api/v1/messages?limit=1000", "/api/v1/messages?limit=1000&type=nothing",
		"/api/v1/messages?newest_first=true", "/api/v1/messages?newest_first=true&limit=1000")
}

// benchWorld is a running worker that owns nothing, its database, and its monitor.
type benchWorld struct {
	pool   *pgxpool.Pool
	url    string
	server serverCPU
}

// BenchmarkMonitor measures what ten open tabs cost a database with many waiting
// rows, and how long each page takes meanwhile.
func BenchmarkMonitor(b *testing.B) {
	rows, err := strconv.Atoi(os.Getenv(benchRows))
	if err != nil || rows < 1000 {
		b.Skip("it takes minutes and gigabytes: run `make bench/monitor ROWS=500000`")
	}
	seconds := 60
	if text := os.Getenv(benchSeconds); text != "" {
		if seconds, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	w := startBench(b, rows)
	for b.Loop() { // once: -benchtime 1x
		w.measureCPU(b, time.Duration(seconds)*time.Second)
	}
}

func startBench(b *testing.B, rows int) *benchWorld {
	b.Helper()
	data := os.Getenv(benchData)
	server := pgtest.Server(b, localpg.Config{DataDir: data, Settings: map[string]string{
		"shared_buffers": "512MB", "maintenance_work_mem": "256MB", "max_wal_size": "8GB", "fsync": "off", "full_page_writes": "off",
	}})
	broker := natstest.Start(b, 1)
	broker.Stream(b, 1)
	binary := os.Getenv(benchBinary)
	if binary == "" {
		binary = clustertest.Binary(b)
	}
	environment := []string{"DATABASE_URL=" + server.URL(), "NATS_URL=" + broker.URL()}
	if p := clustertest.LaunchBinary(b, "migrate", binary, environment, "migrate", "up", "--partitions", "64"); p.Exit(b) != exitOK {
		b.Fatal(p.Stderr())
	}
	pool := pgtest.Pool(b, server.URL())
	fillOutbox(b, pool, rows)
	w := &clustertest.Worker{Process: clustertest.LaunchBinary(b, "worker", binary, environment, "run", "--http-addr=127.0.0.1:0")}
	return &benchWorld{pool: pool, url: w.Monitor(b), server: findServer(b, pool)}
}

// measureCPU compares a while without tabs with a while with them.
func (w *benchWorld) measureCPU(b *testing.B, length time.Duration) {
	b.Helper()
	quiet := w.watch(b, min(length/3, 20*time.Second))
	stop, frames := w.openTabs(b)
	w.wait(b, 3*time.Second) // the first count of the backlog is over
	open := w.watch(b, length)
	cost := open.workers - quiet.workers
	b.Logf("database, share of a core, without tabs: worker's sessions %.2f %%, whole server %.2f %%", 100*quiet.workers, 100*quiet.all)
	b.Logf("database, share of a core, %d tabs:      worker's sessions %.2f %%, whole server %.2f %%; the monitor's part %.2f %%",
		benchTabs, 100*open.workers, 100*open.all, 100*cost)
	if whole := open.all - quiet.all; whole > cost { // parallel workers end before they are seen
		cost = whole
	}
	b.ReportMetric(100*cost, "%-of-core")
	if cost >= mostCPU {
		b.Errorf("the monitor costs the database %.2f %% of a core, at most %.0f %% is allowed", 100*cost, 100*mostCPU)
	}
	w.measureRoutes(b)
	w.measurePaint(b)
	stop()
	if n := frames.Load(); n < int64(benchTabs*int(length/time.Second)/2) {
		b.Errorf("the tabs got %d snapshots only", n)
	}
}

func (w *benchWorld) wait(b *testing.B, length time.Duration) {
	b.Helper()
	select {
	case <-time.After(length):
	case <-b.Context().Done():
		b.Fatal(b.Context().Err())
	}
}

// openTabs follows the stream of events like that many browsers.
func (w *benchWorld) openTabs(b *testing.B) (stop func(), frames *atomic.Int64) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	var tabs sync.WaitGroup
	frames = &atomic.Int64{}
	for range benchTabs {
		tabs.Go(func() {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/api/v1/events", nil)
			if err != nil {
				b.Error(err)
				return
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				b.Error(err)
				return
			}
			defer response.Body.Close()
			for lines := bufio.NewReader(response.Body); ; {
				line, err := lines.ReadString('\n')
				if err != nil {
					return
				}
				if strings.HasPrefix(line, "event: snapshot") {
					frames.Add(1)
				}
			}
		})
	}
	return func() { cancel(); tabs.Wait() }, frames
}

// measureRoutes asks for every page, one after the other, while the tabs are open.
func (w *benchWorld) measureRoutes(b *testing.B) {
	b.Helper()
	var waiting int64
	if err := w.pool.QueryRow(b.Context(), `SELECT global_sequence FROM outbox_ready WHERE partition_key = 7 ORDER BY global_sequence OFFSET 100 LIMIT 1`).Scan(&waiting); err != nil {
		b.Fatal(err)
	}
	var missing []string
	b.Logf("%-45s %9s %9s %9s", "route", "p50", "p95", "max")
	for _, route := range monitorRoutes() {
		if strings.Contains(route, "%d") {
			route = fmt.Sprintf(route, waiting)
		}
		var times []time.Duration
		status := 0
		started := time.Now()
		for n := 0; n < benchRequests && (status == 0 || status == http.StatusOK); n++ {
			if n >= 3 && time.Since(started) > benchRoute {
				break
			}
			began := time.Now()
			status = w.get(b, route)
			times = append(times, time.Since(began))
		}
		if status == http.StatusNotFound || status == http.StatusNotImplemented {
			missing = append(missing, route)
			continue
		}
		if status != http.StatusOK {
			b.Logf("%-45s status %d after %s", route, status, times[len(times)-1].Round(time.Millisecond))
			if status >= http.StatusInternalServerError {
				b.Errorf("%s: status %d", route, status)
			}
			continue
		}
		slices.Sort(times)
		p50, p95, most := times[len(times)/2], times[len(times)*95/100], times[len(times)-1]
		b.Logf("%-45s %9s %9s %9s", route, p50.Round(100*time.Microsecond), p95.Round(100*time.Microsecond), most.Round(100*time.Microsecond))
		if p95 >= mostLatency {
			b.Errorf("%s takes %s, at most %s is allowed", route, p95, mostLatency)
		}
	}
	if len(missing) > 0 {
		b.Logf("not there: %s", strings.Join(missing, " "))
	}
}

// measurePaint loads the overview in a browser, where there is one, and takes the time until something of it is seen.
func (w *benchWorld) measurePaint(b *testing.B) {
	b.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		b.Log("first paint: no Chromium is on the PATH")
		return
	}
	allocator, stop := chromedp.NewExecAllocator(b.Context(), append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.NoSandbox)...)
	defer stop()
	tab, end := chromedp.NewContext(allocator)
	defer end()
	tab, cancel := context.WithTimeout(tab, time.Minute)
	defer cancel()
	// The entry is there as soon as the frame was shown.
	const painted = `new Promise((tell) => new PerformanceObserver((list) => tell(list.getEntries()[0].startTime)).observe({type: 'paint', buffered: true}))`
	var times []time.Duration
	for range benchRequests {
		if err := chromedp.Do(tab, chromedp.Navigate(w.url)); err != nil {
			b.Fatal(err)
		}
		after, err := chromedp.Run(tab, chromedp.Evaluate[float64](painted, chromedp.EvalAwaitPromise))
		if err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Duration(after*float64(time.Millisecond)))
	}
	slices.Sort(times)
	p50, p95, most := times[len(times)/2], times[len(times)*95/100], times[len(times)-1]
	b.Logf("%-45s %9s %9s %9s", "first paint of /", p50.Round(time.Millisecond), p95.Round(time.Millisecond), most.Round(time.Millisecond))
	if p50 >= mostLatency {
		b.Errorf("the first paint takes %s, at most %s is allowed", p50, mostLatency)
	}
}

func (w *benchWorld) get(b *testing.B, route string) (status int) {
	b.Helper()
	request, err := http.NewRequestWithContext(b.Context(), http.MethodGet, w.url+route, nil)
	if err != nil {
		b.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		b.Fatal(err)
	}
	return response.StatusCode
}
