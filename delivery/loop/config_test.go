package loop_test

import (
	"errors"
	"testing"
	"time"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/loop"
)

func TestConfigIsRefusedByName(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]loop.Config{
		"BatchSize":        {BatchSize: 10_001},
		"Window":           {BatchSize: 100, Window: 10},
		"WindowBytes":      {WindowBytes: 1},
		"MaxPayload":       {MaxPayload: -1},
		"PollInterval":     {PollInterval: time.Hour},
		"StatementTimeout": {StatementTimeout: -1},
		"CacheSize":        {CacheSize: -1},
		"Retry.Base":       {Retry: delivery.RetryPolicy{Base: -1}},
		"Retry.Factor":     {Retry: delivery.RetryPolicy{Base: 1, Factor: 0.5, Max: 1}},
		"Retry.Max":        {Retry: delivery.RetryPolicy{Base: 2, Factor: 1, Max: 1}},
		"Retry.Jitter":     {Retry: delivery.RetryPolicy{Base: 1, Factor: 1, Max: 1, Jitter: "full"}},
	} {
		if err := cfg.WithDefaults().Validate(); !errors.Is(err, delivery.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
