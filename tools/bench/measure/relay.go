package measure

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/internal/loopback"
)

// relayShape configures the relay under test.
type relayShape struct {
	order   ledger.Ordering
	workers int // processes; 0 means 1
}

// worker is a process of `postrider run`.
type worker struct {
	*child
	monitor string
}

const (
	// readyPatience bounds the time until workers hold all leases.
	readyPatience = time.Minute
	// lookEvery is the interval of polls where no signal comes.
	lookEvery = 10 * time.Millisecond
	// awaitEvery is the same for the stream of a drain, which a poll disturbs.
	awaitEvery = 50 * time.Millisecond
	// stallPatience bounds a drain's standstill.
	stallPatience = 30 * time.Second
)

// startRelay starts the workers and returns when they own all partitions.
func (b *Bench) startRelay(ctx context.Context, d *database, n *broker, s relayShape) (_ []worker, err error) {
	var workers []worker
	defer func() {
		if err != nil {
			err = errors.Join(err, stopWorkers(workers))
		}
	}()
	for i := range max(1, s.workers) {
		port, err := loopback.FreePort(ctx)
		if err != nil {
			return workers, err
		}
		address := net.JoinHostPort(loopback.Host, strconv.Itoa(port))
		args := append([]string{
			"run", "--silent", "--http-addr=" + address, "--stream=" + streamName, "--ordering=" + string(s.order),
		}, b.cfg.Relay...)
		c, err := b.launch(b.tested, fmt.Sprintf("worker %d", i+1), []string{"POSTRIDER_DATABASE_URL=" + d.url, "POSTRIDER_NATS_URL=" + n.url}, false, args...)
		if err != nil {
			return workers, err
		}
		workers = append(workers, worker{c, "http://" + address})
	}
	ready, cancel := context.WithTimeoutCause(ctx, readyPatience, errors.New("the workers do not own all partitions in time"))
	defer cancel()
	return workers, until(ready, lookEvery, func() (bool, error) {
		for _, w := range workers {
			if err := w.ended(); err != nil {
				return false, err
			}
		}
		return d.shared(ready, len(workers))
	})
}

func stopWorkers(workers []worker) error {
	stopped := make(chan error, len(workers))
	for _, w := range workers {
		go func() { stopped <- w.stop() }()
	}
	var all error
	for range workers {
		all = errors.Join(all, <-stopped)
	}
	return all
}

func children(workers []worker) []*child {
	list := make([]*child, len(workers))
	for i, w := range workers {
		list[i] = w.child
	}
	return list
}

// until polls holds until it is true.
func until(ctx context.Context, every time.Duration, holds func() (bool, error)) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if ok, err := holds(); ok || err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// mallocs returns a worker's number of allocations, by its metrics.
func (w worker) mallocs(ctx context.Context) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.monitor+"/metrics", http.NoBody)
	if err != nil {
		return 0, fmt.Errorf("metrics of %s: %w", w.name, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, fmt.Errorf("metrics of %s: %w", w.name, err)
	}
	defer response.Body.Close() //nolint:errcheck // it is only read
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if text, found := strings.CutPrefix(lines.Text(), "go_memstats_mallocs_total "); found {
			n, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return 0, fmt.Errorf("metrics of %s: %w", w.name, err)
			}
			return n, nil
		}
	}
	return 0, fmt.Errorf("metrics of %s: no go_memstats_mallocs_total: %w", w.name, lines.Err())
}

// allocations sums mallocs over all workers.
func allocations(ctx context.Context, workers []worker) (float64, error) {
	var sum float64
	for _, w := range workers {
		n, err := w.mallocs(ctx)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// memory returns the largest peak of a worker, in MiB.
func memory(workers []worker) (float64, error) {
	var most float64
	for _, w := range workers {
		mib, err := peakMemory(w.pid())
		if err != nil {
			return 0, err
		}
		most = max(most, mib)
	}
	return most, nil
}
