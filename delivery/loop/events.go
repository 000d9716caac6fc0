package loop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/shape"
)

// EventReader reads events as a relay of the same configuration would publish them, for those who publish past a relay.
type EventReader struct {
	store delivery.Store
	cfg   Config
	can   func() delivery.Capabilities
	*shape.Shaper
}

// NewEventReader returns a reader for a publisher that can do that now; nil: that is not known. Of the configuration it takes
// MaxPayload, WindowBytes, Transforms, TransformTimeout and Logger, which should be the relays'.
func NewEventReader(cfg Config, store delivery.Store, can func() delivery.Capabilities) (*EventReader, error) {
	if can == nil {
		can = func() delivery.Capabilities { return delivery.Capabilities{} }
	}
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &EventReader{store: store, cfg: cfg, can: can, Shaper: shaperOf(cfg, func() {})}, nil
}

// Reading is a message as it is to be published, or why it cannot be.
type Reading struct {
	delivery.Message
	// Skip: the event is audit-only, and not published.
	Skip bool
	// Err wraps ErrEventMissing, ErrEventUnreadable, ErrPayloadTooLarge or ErrTransform.
	Err error
}

// Read returns the messages of pointers, which ascend by sequence: of the first ones, as many as about a quarter of WindowBytes holds, and
// at least one. Everything that it reads has to be durable. It fails when the database does, when the context ends, and, with
// ErrTransform, while so many transforms run past their time that no more are begun.
func (r *EventReader) Read(ctx context.Context, pointers []delivery.Pointer) ([]Reading, error) {
	if len(pointers) == 0 {
		return nil, nil
	}
	sequences := make([]int64, len(pointers))
	for i, p := range pointers {
		sequences[i] = p.Sequence
	}
	most := r.Largest(r.can())
	found, cutAt, err := r.store.Rehydrate(ctx, time.Time{}, sequences, most.Bytes, r.cfg.WindowBytes/4)
	if err != nil {
		return nil, err
	}
	h := r.Start(ctx, most, func() bool { return ctx.Err() != nil })
	defer h.End()
	var readings []Reading
	for _, p := range pointers {
		if cutAt != 0 && p.Sequence >= cutAt {
			break
		}
		m := delivery.Message{Pointer: p, Event: found[p.Sequence]}
		shaped, o, stop := h.Shape(&m)
		// One that ran past its time failed; where none was begun the message waits.
		if stop && !errors.Is(o.Err, shape.ErrTransformTime) {
			if len(readings) > 0 {
				break
			}
			return nil, fmt.Errorf("read events: %w", errors.Join(o.Err, ctx.Err()))
		}
		reading := Reading{Message: shaped}
		if o != nil {
			reading.Skip, reading.Err = o.Kind == delivery.Skipped, o.Err
		}
		if readings = append(readings, reading); stop {
			break
		}
	}
	return readings, nil
}
