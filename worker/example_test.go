package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/ui"
	"github.com/postrider/postrider/worker"
)

// A program whose only work is to deliver. One that does more runs this beside the rest, and waits for it before it exits.
func ExampleRun() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := worker.Run(ctx, worker.Config{
		DatabaseURL: os.Getenv("DATABASE_URL"),
		NATSURL:     os.Getenv("NATS_URL"),
		Stream:      streams.StreamConfig{Create: true},
		Canary:      time.Millisecond, // too often
		Monitor:     &ui.ServerConfig{Addr: "127.0.0.1:8080"},
	})
	if errors.Is(err, worker.ErrConfig) {
		fmt.Println("starting again is of no use:", err)
	}
	// Output: starting again is of no use: worker configuration: Canary (--canary): must lie between 1s and 24h, or be 0, got 1ms
}
