package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/outbox/schema"
)

// Config.Canary appends events of this topic and type. Consumers leave them out by the topic, so nobody else should use it.
const (
	CanaryTopic = "postrider"
	CanaryType  = "canary"
)

const (
	canaryStreams = 256 // used in turn, so that canaries reach most partitions
	canaryTimeout = 5 * time.Second
	canaryLook    = time.Second // the longest pause between reads of the stream
)

// canary appends an event each interval and reads it back; only the owner of the cluster's first partition does so. A stream of events has
// one canary in flight, so a stalled partition gathers few.
type canary struct {
	w        *Worker
	log      *slog.Logger
	producer *outbox.Producer
	operator *ops.Operator
	reader   *streams.StreamReader

	streams, sent int
	waiting       map[int]*flight // by the stream of events
	after         uint64          // canaries not yet read are stored at this position or later
	created       time.Time       // the creation time of the stream of NATS
	seen          time.Time       // when the last read that reached the stream's end began

	checks, failures prometheus.Counter
	seconds          *prometheus.HistogramVec

	mu      sync.Mutex
	overdue string
}

type flight struct {
	outbox.Appended
	committed time.Time
}

func (f *flight) missing() error {
	return fmt.Errorf("event %d of %s UTC, in partition %d, is not in the stream", f.Sequence, f.committed.UTC().Format(time.DateTime), f.Partition)
}

func (w *Worker) openCanary(ctx context.Context) error {
	if w.cfg.Canary == 0 || w.cfg.Once {
		return nil
	}
	refuse := func(why string) error { return refused("Canary (--canary)", errors.New(why)) }
	subject, err := wire.ParseSubject(w.cfg.Shape.Subject.Within(CanaryTopic))
	switch {
	case err != nil:
		return refused("Canary (--canary)", err)
	case subject.String() == w.cfg.Shape.Subject.String():
		return refuse("the subjects (--subject) must have {topic}, by which consumers tell its events from others")
	case w.info.Events != schema.DefaultEvents:
		return refuse("it appends to the table " + schema.DefaultEvents + ", and this outbox reads " + w.info.Events)
	}
	f := promauto.With(w.metrics)
	c := &canary{
		w: w, log: w.log.With("worker", w.ID().String()), streams: canaryStreams, waiting: map[int]*flight{},
		checks: f.NewCounter(prometheus.CounterOpts{
			Name: "outbox_canaries_total", Help: "Intervals at whose end this worker knew whether its canary could be read.",
		}),
		failures: f.NewCounter(prometheus.CounterOpts{
			Name: "outbox_canary_failures_total", Help: "Those of the intervals at whose end the canary could not be read from the stream.",
		}),
		seconds: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "outbox_canary_seconds",
			Help:    "Time from the commit of a canary until it was stored, by the broker's clock, and until it was read from the stream.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 18),
		}, []string{"stage"}),
	}
	if c.producer, err = outbox.New(outbox.Config{Schema: w.cfg.Schema}); err != nil {
		return err
	}
	if c.operator, err = ops.New(ctx, w.data, w.cfg.Schema, w.events); err != nil {
		return err
	}
	if c.reader, err = streams.NewStreamReader(w.nc, w.cfg.Stream.APIPrefix, w.cfg.Stream.Name, subject); err != nil {
		return err
	}
	w.canary = c
	return nil
}

func (c *canary) run(ctx context.Context) error {
	ticker := time.NewTicker(c.w.cfg.Canary)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if !c.leads() {
			clear(c.waiting)
			c.say(nil)
			continue
		}
		err := c.round(ctx)
		if ctx.Err() != nil || !c.leads() {
			continue
		}
		if c.checks.Inc(); err != nil {
			c.failures.Inc()
		}
		c.say(cmp.Or(c.bury(ctx), c.giveUp(ctx), err, c.overdueOne()))
	}
}

func (c *canary) leads() bool { return c.w.leads() != nil }

// round appends a canary and polls the stream for it, until the interval is over.
func (c *canary) round(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.w.cfg.Canary)
	defer cancel()
	c.sent++
	stream := c.sent % c.streams
	if c.waiting[stream] == nil {
		if err := c.append(ctx, stream); err != nil {
			return fmt.Errorf("it cannot be appended: %w", err)
		}
	}
	for {
		err := c.look(ctx)
		f := c.waiting[stream]
		if f == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			if errors.Is(err, context.DeadlineExceeded) { // the interval was over
				err = nil
			}
			return cmp.Or(err, f.missing())
		case <-time.After(min(canaryLook, max(time.Millisecond, time.Since(f.committed)/4))):
		}
	}
}

func (c *canary) append(ctx context.Context, stream int) error {
	ctx, cancel := context.WithTimeout(ctx, canaryTimeout)
	defer cancel()
	extent, err := c.w.publisher.Extent(ctx)
	if err != nil {
		return err
	}
	switch {
	case len(c.waiting) == 0:
		c.after, c.created = extent.Last+1, extent.Created
	case !extent.Created.Equal(c.created): // it was made anew
		c.after, c.created = 1, extent.Created
	}
	event := outbox.Event{StreamID: fmt.Sprintf("canary-%d", stream), Topic: CanaryTopic, Type: CanaryType, Payload: []byte("{}")}
	var appended []outbox.Appended
	trip := &pgx.Batch{} // with its commit: a worker that stands still meanwhile holds no stream
	if err := c.producer.QueueAppend(trip, func(all []outbox.Appended) error { appended = all; return nil }, event); err != nil {
		return err
	}
	err = c.w.data.SendBatch(ctx, trip).Close()
	switch {
	case pg.Refused(err, "42501"):
		return fmt.Errorf("%w: run deploy/sql/roles.sql after SET postrider.canary = 'on', or grant EXECUTE on the function outbox_append_batch", err)
	case err != nil:
		return err
	}
	c.waiting[stream] = &flight{appended[0], time.Now()}
	c.w.Ring(appended...)
	return nil
}

// look reads the stream's new canaries, and times those in flight.
func (c *canary) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, canaryTimeout)
	defer cancel()
	for {
		began := time.Now()
		m, at, err := c.reader.Next(ctx, c.after)
		if err != nil {
			return err
		}
		if m.Position == 0 {
			c.seen = began
			return nil
		}
		c.after = m.Position + 1
		for stream, f := range c.waiting {
			if f.EventID != m.EventID {
				continue
			}
			read := time.Since(f.committed)
			c.seconds.WithLabelValues("read").Observe(read.Seconds())
			c.seconds.WithLabelValues("stored").Observe(min(max(0, at.Sub(f.committed)), read).Seconds())
			delete(c.waiting, stream)
		}
	}
}

// bury discards dead canaries, since nobody waits for them. Their events stay.
func (c *canary) bury(ctx context.Context) error {
	if len(c.waiting) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, canaryTimeout)
	defer cancel()
	died, err := c.operator.Discard(ctx, ops.Command{
		Selection: ops.Selection{Filter: ops.Filter{Topic: CanaryTopic, Type: CanaryType}}, Actor: "canary", Reason: "nobody waits for a canary that died",
	})
	if err != nil || died.Count == 0 {
		return err
	}
	clear(c.waiting)
	return fmt.Errorf("%d died, and were discarded: see postrider messages list --topic %s --state discarded", died.Count, CanaryTopic)
}

// giveUp forgets the oldest canary if the stream can be read and no table still has the canary to deliver: somebody discarded it, the
// stream was purged, or a failover forgot it.
func (c *canary) giveUp(ctx context.Context) error {
	stream, f := c.oldest()
	if f == nil || c.seen.Sub(f.committed) < 2*c.w.cfg.Canary {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, canaryTimeout)
	defer cancel()
	d, err := c.operator.Show(ctx, f.Sequence)
	switch {
	case errors.Is(err, ops.ErrNotFound):
		d.State = ops.Unknown
	case err != nil || d.State.Queued():
		return nil
	}
	delete(c.waiting, stream)
	return fmt.Errorf("%w, and nothing brings it there: it is %s", f.missing(), d.State)
}

// oldest returns the canary longest in flight, with its stream; nil: none is.
func (c *canary) oldest() (stream int, oldest *flight) {
	for n, f := range c.waiting {
		if oldest == nil || f.committed.Before(oldest.committed) {
			stream, oldest = n, f
		}
	}
	return stream, oldest
}

func (c *canary) overdueOne() error {
	_, f := c.oldest()
	if f == nil {
		return nil
	}
	return f.missing()
}

// say reports a fault once, and its end; nil: none.
func (c *canary) say(wrong error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case wrong != nil && c.overdue == "":
		c.log.Warn("the canary is overdue", "error", wrong)
	case wrong == nil && c.overdue != "":
		c.log.Info("the canary is not overdue any more")
	}
	c.overdue = ""
	if wrong != nil {
		c.overdue = "overdue: " + strings.ToValidUTF8(wrong.Error(), "")
	}
}

// trouble returns the last fault that say reported.
func (c *canary) trouble() string {
	if c == nil {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.overdue
}
