package main

import (
	"context"
	"fmt"
	"strings"

	"go.uber.org/fx"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/admin"
	"github.com/postrider/postrider/outbox/schema"
)

// operations are what a worker's monitor shows of single messages and does to
// them, as far as the role has the rights.
type operations struct {
	// operator is nil where not even looking is allowed.
	operator *admin.Operator
	// lookOnly: rights to act are missing.
	lookOnly bool
}

// operatorConnections are opened when somebody looks or acts.
const operatorConnections = 2

// newOperations has connections of its own: people who search must not hold up
// leases and deliveries.
func newOperations(ctx context.Context, lc fx.Lifecycle, opened *undo, cfg workerConfig, _ schema.Info) (operations, error) {
	events, err := delivery.ParseRelation(cfg.worker.EventsRelation)
	if err != nil {
		return operations{}, err
	}
	pool, err := cfg.database.pool(ctx, "postrider operator", operatorConnections)
	if err != nil {
		return operations{}, err
	}
	opened.add(lc, pool.Close)
	op, err := admin.New(ctx, pool, cfg.database.Schema, events)
	if err != nil {
		return operations{}, fmt.Errorf("--events-relation: %w", err)
	}
	missing, err := op.MissingRights(ctx)
	if err != nil {
		return operations{}, fmt.Errorf("monitor: %w", err)
	}
	list := func(rights []string) string { return strings.Join(rights, "; ") }
	switch {
	case len(missing.Look) > 0:
		cfg.log.Warn("the monitor shows no messages and takes no actions: the database role lacks rights", "missing", list(missing.Look))
		return operations{}, nil
	case len(missing.Act) > 0:
		cfg.log.Warn("the monitor takes no actions: the database role lacks rights", "missing", list(missing.Act))
	}
	if len(missing.Audit) > 0 {
		cfg.log.Info("the monitor shows no audit: the database role lacks a right", "missing", list(missing.Audit))
	}
	if cfg.http.HTTPShowPayload && len(missing.Payload) > 0 {
		cfg.log.Warn("the monitor shows no payloads (--http-show-payload): the database role lacks a right", "missing", list(missing.Payload))
	}
	return operations{operator: op, lookOnly: len(missing.Act) > 0}, nil
}
