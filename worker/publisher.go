package worker

import (
	"context"

	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/natspub/wire"
)

// batches returns this worker's quota of the atomic batches that one stream admits.
func (w *Worker) batches() int {
	return min(max(1, natspub.MaxBatchesTotal/max(1, w.coordinator.Members())), natspub.MaxBatchesTotal/2)
}

func (w *Worker) openPublisher(ctx context.Context) error {
	w.cfg.Stream.Control = streams.Control{Outbox: w.info.OutboxID, Prefix: w.info.ControlPrefix}
	stream, err := streams.EnsureFenced(ctx, w.nc, w.cfg.Stream)
	if err != nil {
		return refused("Stream (--stream)", err, wire.ErrConfig)
	}
	batches, why := streams.TakesBatches(w.nc, stream.Config)
	if !batches {
		w.log.Warn("publishing message by message: a backlog drains slower than by atomic batches", "why", why)
	}
	ordering, flights := w.cfg.Delivery.WithDefaults().Ordering, 1
	w.log.Info("publishing", "ordering", string(ordering), "stream", w.cfg.Stream.Name, "batches", batches)
	if stream.Config.Replicas > 1 {
		flights = 3
	}
	publisher, err := natspub.NewFenced(w.nc, natspub.FencedConfig{
		Stream: w.cfg.Stream.Name, APIPrefix: w.cfg.Stream.APIPrefix, Shape: w.cfg.Shape, AckTimeout: w.cfg.AckTimeout,
		Control: w.cfg.Stream.Control, Flights: flights, InFlight: w.batches, Found: stream,
	})
	if err != nil {
		return refused("NATSOptions, AckTimeout (--ack-timeout)", err)
	}
	w.publisher = publisher
	w.opened = append(w.opened, func() { _ = publisher.Close() })
	return nil
}
