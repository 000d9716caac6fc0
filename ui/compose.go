package ui

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/ui/act"
)

// renewal is the interval of checks of rights and events relation.
const renewal = 5 * time.Second

// Compose returns the server of a monitor that shows source, with one cache for pages, API and metrics. Registerer, where given, gets the
// metrics of NewCollector. Operator, where given, becomes that of the Options as far as its role has the rights. The log names rights that
// it, Options.Replays or Options.Resizes lack. Server.Work repeats the check.
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
	s, err := NewServer(config)
	if err != nil || operator == nil {
		return s, err
	}
	s.rights = &act.Rights{Wanted: s.handler.desk.Means(), Operator: operator}
	return s, s.rights.Renew(ctx, s.handler.desk)
}
