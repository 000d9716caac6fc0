package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/postrider/postrider/projection"
)

// runWith connects to NATS and opens the metrics, where they are asked for, around the projection.
func (p *program) runWith(ctx context.Context, config projection.Config, use func(*program) error) (err error) {
	registry := prometheus.NewRegistry()
	config.Registerer = registry
	if config.Mode == projection.Inline && config.Workers == 0 {
		return fmt.Errorf("%w: --mode inline has nothing to run: the producer applies; see `projection append --mode inline`", errRefused)
	}
	if p.nats != "" {
		nc, err := connect(p.nats, nats.Name("projection "+p.schema), nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true))
		if err != nil {
			return err
		}
		defer nc.Close()
		if config.JetStream, err = jetstream.New(nc); err != nil {
			return err
		}
	}
	if p.p, err = projection.New(config); err != nil {
		return named(err)
	}
	if p.metrics != "" {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.metrics)
		if err != nil {
			return fmt.Errorf("%w: --metrics-addr: %w", errRefused, err)
		}
		server := &http.Server{Handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), ReadHeaderTimeout: 5 * time.Second}
		go func() { _ = server.Serve(listener) }() // ends with Close
		defer func() { err = errors.Join(err, server.Close()) }()
	}
	return use(p)
}

func connect(address string, options ...nats.Option) (*nats.Conn, error) {
	nc, err := nats.Connect(address, options...)
	if unreadable := new(url.Error); errors.As(err, &unreadable) {
		err = errors.New("cannot be read as an address") // the error would show it, with its password
	}
	if err != nil {
		return nil, fmt.Errorf("%w: --nats-url: %w", errRefused, err)
	}
	return nc, nil
}

func (p *program) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- p.p.Run(ctx) }()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	var last projection.Summary
	for {
		select {
		case err := <-ended:
			return err
		case <-ticker.C:
		}
		summary, err := p.p.Summary(ctx)
		if err != nil {
			continue // the database is away, or the tables are not there yet
		}
		if summary.Current != last.Current || summary.EventsBehind != last.EventsBehind || summary.Dead != last.Dead {
			fmt.Fprintf(p.log, "%d streams current, %d with work, %d dead; %d events behind\n", summary.Current,
				summary.Streams()-summary.Current-summary.Dead, summary.Dead, summary.EventsBehind)
		}
		last = summary
		stuck := summary.Dead
		if p.p.Mode() == projection.Shadow {
			stuck += summary.Failed // which it tries for ever
		}
		if !p.untilCurrent || summary.Current+stuck < summary.Streams() {
			continue
		}
		report, err := p.p.Detect(ctx, 0)
		if err != nil || report.Behind > int(stuck) || waits(report.Gaps) {
			continue
		}
		stop()
		if err := <-ended; err != nil {
			return err
		}
		return p.ends(summary)
	}
}

// waits tells whether a stream is merely behind.
func waits(gaps []projection.Gap) bool {
	for _, g := range gaps {
		if g.Kind == projection.Trailing || g.Kind == projection.MissingWatermark {
			return true
		}
	}
	return false
}

func (p *program) ends(s projection.Summary) error {
	if err := p.print(s, func() { p.showSummary(s) }); err != nil {
		return err
	}
	if s.Current < s.Streams() {
		return errFound
	}
	return nil
}
