package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/fx"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/outbox/schema"
)

// operations are what a monitor shows of single messages and does to them, as far as the role has the rights.
type operations struct {
	// operator is nil where not even looking is allowed.
	operator *ops.Operator
	// lookOnly: rights to act are missing.
	lookOnly bool
}

// operatorConnections are opened when somebody looks or acts.
const operatorConnections = 2

// newOperations has connections of its own: people who search must not hold up leases and deliveries.
func newOperations(ctx context.Context, lc fx.Lifecycle, opened *undo, cfg workerConfig, info schema.Info) (operations, error) {
	pool, err := cfg.database.pool(ctx, "postrider operator", operatorConnections)
	if err != nil {
		return operations{}, err
	}
	opened.add(lc, pool.Close)
	return readOperations(ctx, pool, cfg.database.Schema, info, cfg.http.HTTPShowPayload, cfg.log)
}

// readOperations looks which of them the pool's role has the rights for, and names what it lacks.
func readOperations(ctx context.Context, pool *pgxpool.Pool, name string, info schema.Info, payload bool, log *slog.Logger) (operations, error) {
	events, err := eventsOf(info)
	if err != nil {
		return operations{}, err
	}
	op, err := ops.New(ctx, pool, name, events)
	if err != nil {
		return operations{}, err
	}
	missing, err := op.MissingRights(ctx)
	if err != nil {
		return operations{}, fmt.Errorf("monitor: %w", err)
	}
	list := func(rights []string) string { return strings.Join(rights, "; ") }
	switch {
	case len(missing.Look) > 0:
		log.Warn("the monitor shows no messages and takes no actions: the database role lacks rights", "missing", list(missing.Look))
		return operations{}, nil
	case len(missing.Act) > 0:
		log.Warn("the monitor takes no actions: the database role lacks rights", "missing", list(missing.Act))
	}
	if len(missing.Audit) > 0 {
		log.Info("the monitor shows no audit: the database role lacks a right", "missing", list(missing.Audit))
	}
	if payload && len(missing.Payload) > 0 {
		log.Warn("the monitor shows no payloads (--http-show-payload): the database role lacks a right", "missing", list(missing.Payload))
	}
	return operations{operator: op, lookOnly: len(missing.Act) > 0}, nil
}
