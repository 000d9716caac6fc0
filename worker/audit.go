package worker

import (
	"cmp"
	"context"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/ops/gaps"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/internal/pg"
)

// openAudit makes the auditor, which compares the stream with the history. Only the owner of the cluster's first partition runs it.
func (w *Worker) openAudit(ctx context.Context) error {
	if w.cfg.Audit == 0 || w.cfg.Once {
		return nil
	}
	pool, err := w.openPool(ctx, pg.Connections{Name: "audit", Most: 1}) // it may hold a snapshot for long
	if err != nil {
		return err
	}
	store, err := gaps.New(ctx, pool, w.cfg.Schema, w.events)
	if err != nil {
		return refused("Audit (--audit)", err, pgstore.ErrEventsRelation)
	}
	stream, err := streams.NewStreamReader(w.nc, w.cfg.Stream.APIPrefix, w.cfg.Stream.Name, w.cfg.Shape.Subject)
	if err != nil {
		return err
	}
	w.audit = gaps.NewAuditor(store, stream, gaps.AuditConfig{
		Every: w.cfg.Audit, Name: w.cfg.Stream.Name, Republish: w.cfg.Delivery.WithDefaults().Lost == delivery.LostRepublish,
		Leads: w.leads, Unfit: w.unfit, Alarm: w.relay.Lost, Registerer: w.metrics, Logger: w.log.With("worker", w.ID().String()),
	})
	return nil
}

// leads returns a context that ends with the first partition's lease; nil: another worker owns it.
func (w *Worker) leads() context.Context {
	if first := w.keeper.Set().Get(0); first != nil {
		return first.Context()
	}
	return nil
}

// unfit returns why nothing may be published now.
func (w *Worker) unfit(ctx context.Context) error {
	now, err := w.relay.Look(ctx)
	return cmp.Or(err, now.Unfit, w.board.Err())
}
