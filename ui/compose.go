package ui

import (
	"context"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/delivery/ops"
)

// Compose returns the server of a monitor that shows source, with one cache for pages, API and metrics. Registerer, where given, gets the
// metrics that NewCollector makes of it. Operator, where given, becomes that of the Options as far as its role has the rights; what it and
// Options.Replays and Options.Resizes lack is logged.
func Compose(ctx context.Context, config ServerConfig, source Source, operator *ops.Operator, registerer prometheus.Registerer) (*Server, error) {
	cache, err := NewCache(source, CacheConfig{})
	if err != nil {
		return nil, err
	}
	if registerer != nil {
		if err := registerer.Register(NewCollector(cache)); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	config.Options.Source = cache
	if operator != nil {
		if err := config.Options.operate(ctx, operator); err != nil {
			return nil, err
		}
	}
	return NewServer(config)
}

// operate looks what the operator's role has the rights for, and names what it lacks.
func (o *Options) operate(ctx context.Context, operator *ops.Operator) error {
	missing, err := operator.MissingRights(ctx)
	if err != nil {
		return err
	}
	log := o.withDefaults().Logger
	list := func(rights []string) string { return strings.Join(rights, "; ") }
	switch {
	case len(missing.Look) > 0:
		o.Replays, o.Resizes = nil, nil
		log.Warn("the monitor shows no messages and takes no actions: the database role lacks rights", "missing", list(missing.Look))
		return nil
	case len(missing.Act) > 0:
		log.Warn("the monitor takes no actions: the database role lacks rights", "missing", list(missing.Act))
	}
	if len(missing.Audit) > 0 {
		log.Info("the monitor shows no audit: the database role lacks a right", "missing", list(missing.Audit))
	}
	if o.ShowPayload && len(missing.Payload) > 0 {
		log.Warn("the monitor shows no payloads (--http-show-payload): the database role lacks a right", "missing", list(missing.Payload))
	}
	if o.Resizes != nil && len(missing.Resize) > 0 {
		log.Info("the monitor does not change the number of partitions: the database role lacks rights", "missing", list(missing.Resize))
		o.Resizes = nil
	}
	switch {
	case o.Replays == nil:
	case len(missing.Replays) > 0:
		log.Info("the monitor shows no replays: the database role lacks a right", "missing", list(missing.Replays))
		o.Replays = nil
	case len(missing.Replay) > 0:
		log.Info("the monitor makes no replays: the database role lacks rights", "missing", list(missing.Replay))
		o.listsOnly = true
	}
	o.Operator, o.ReadOnly = operator, o.ReadOnly || len(missing.Act) > 0
	return nil
}
