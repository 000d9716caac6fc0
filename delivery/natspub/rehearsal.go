package natspub

import (
	"context"
	"log/slog"

	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// RehearsalConfig names the stream of the messages.
type RehearsalConfig struct {
	Stream string
	// Shape turns events into messages.
	Shape wire.Shape
	// MaxMessageSize bounds headers and body, in bytes; 0 or below: the server's limit.
	MaxMessageSize int
}

// Rehearsal makes every message as a publisher would, compares it with the limits
// of server and stream, and sends nothing. It implements delivery.Publisher.
type Rehearsal struct {
	nc    *nats.Conn
	cfg   RehearsalConfig
	build wire.Builder
	log   *slog.Logger
}

// NewRehearsal returns a publisher that publishes nothing. Each message is logged at level debug.
func NewRehearsal(nc *nats.Conn, cfg RehearsalConfig, log *slog.Logger) (*Rehearsal, error) {
	build, err := wire.NewBuilder(cfg.Shape)
	if err != nil {
		return nil, err
	}
	return &Rehearsal{nc: nc, cfg: cfg, build: build, log: log}, nil
}

// Take implements delivery.Publisher.
func (r *Rehearsal) Take(context.Context, *lease.Lease, delivery.Known) (delivery.Standing, error) {
	return delivery.Standing{}, nil
}

// Kept implements delivery.Publisher.
func (r *Rehearsal) Kept(context.Context, partition.ID) (uint64, error) { return 0, nil }

// Between implements delivery.Publisher.
func (r *Rehearsal) Between(_ context.Context, _ partition.ID, after, _ uint64) (uint64, []delivery.Delivered, error) {
	return after, nil, nil
}

// Extent implements delivery.Publisher.
func (r *Rehearsal) Extent(context.Context) (delivery.Extent, error) { return delivery.Extent{}, nil }

// Ready implements delivery.Publisher.
func (r *Rehearsal) Ready() <-chan struct{} { return nil }

// Records implements delivery.Publisher.
func (r *Rehearsal) Records(delivery.Session) (last, written uint64) { return 0, 0 }

// Trim implements delivery.Publisher.
func (r *Rehearsal) Trim(context.Context, partition.ID, delivery.Session, uint64, uint64) (more bool, err error) {
	return false, nil
}

// Publish implements delivery.Publisher.
func (r *Rehearsal) Publish(look []delivery.Batch, done func(int, []delivery.Outcome)) {
	for i, b := range look {
		done(i, r.judge(b))
	}
}

// judge gives each message of a batch its outcome in the absence of faults.
func (r *Rehearsal) judge(b delivery.Batch) []delivery.Outcome {
	outcomes := make([]delivery.Outcome, len(b.Messages))
	held := map[string]bool{}
	for i, m := range b.Messages {
		if held[m.Stream] {
			outcomes[i] = delivery.Outcome{Kind: delivery.Behind}
			continue
		}
		msg := r.build.Message(m)
		size := wire.HeaderSize(msg.Header) + len(msg.Data)
		err := r.build.Headers.Check(m.Event)
		if err == nil {
			err = wire.CheckSize(size, r.nc.MaxPayload(), r.cfg.MaxMessageSize, r.cfg.Stream)
		}
		if err != nil {
			outcomes[i] = delivery.Outcome{Kind: delivery.Permanent, Err: err}
			held[m.Stream] = b.Policy != delivery.BehindNone
			continue
		}
		outcomes[i] = delivery.Outcome{Kind: delivery.Published}
		r.log.Debug("would publish", "sequence", m.Sequence, "generation", m.Generation, "partition", m.Partition, "stream", m.Stream,
			"subject", msg.Subject, "bytes", size)
	}
	return outcomes
}

// Capabilities implements delivery.Publisher.
func (r *Rehearsal) Capabilities() delivery.Capabilities {
	return r.build.Capabilities(r.nc, r.cfg.MaxMessageSize, r.cfg.Stream)
}
