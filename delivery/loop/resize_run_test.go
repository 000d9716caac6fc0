package loop_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/delivery/ops/resize"
)

// resizing is what a resize of the whole needs; connected is called before the workers are asked.
func (b *bundle) resizing(t *testing.T, connected func()) resize.Config {
	t.Helper()
	b.exec(t, `UPDATE outbox_partitions SET lease_until = clock_timestamp() - interval '1 s'`)
	broker := resize.Broker{Publisher: b.publisher(t), Ring: func(string) {}, Close: func() {}}
	return resize.Config{
		Pool: b.pool, Schema: "public", Logger: testLogger(t), Timeout: 10 * time.Second,
		Connect: func(context.Context) (resize.Broker, error) {
			connected()
			return broker, nil
		},
	}
}

func nothing() {}

func wanted(to int) resize.Wanted { return resize.Wanted{To: to, Actor: "me", Reason: "a test"} }

// Whether what the stream lost is published again is for the workers to say, also behind a resize that took the partitions.
func TestAResizeQueuesNothingThatTheStreamLost(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	for i := range 16 {
		b.append(t, fmt.Sprintf("s-%d", i), `1`)
	}
	b.deliver(t)
	remake(t, b)
	if _, err := resize.Run(t.Context(), b.resizing(t, nothing), wanted(8)); err != nil {
		t.Fatal(err)
	}
	if n := b.number(t, `SELECT count(*) FROM outbox`); n != 0 {
		t.Errorf("%d events are queued again", n)
	}
	b.count, b.keeper = 8, b.newKeeper(t)
	b.lacks(t, "behind the resize", 16)
	b.deliver(t)
	b.lacks(t, "when workers have what was lost published again", 0)
}

// Who comes behind another resize asks no worker for partitions that are not there.
func TestAResizeGoesByTheNumberThatIs(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	_, err := resize.Run(t.Context(), b.resizing(t, func() { b.resize(t, 2) }), wanted(8))
	if !errors.Is(err, resize.ErrCountChanged) || !strings.Contains(err.Error(), "there are 2 partitions, not 4") {
		t.Errorf("it says %v", err)
	}
	if n := b.number(t, `SELECT partition_count FROM outbox_settings`); n != 2 {
		t.Errorf("there are %d partitions", n)
	}
}

// A resize that was made is not told as failed because the session that held the workers up was cut off.
func TestAResizeThatWasMadeHasNotFailed(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	for i := range 16 {
		b.append(t, fmt.Sprintf("s-%d", i), `1`)
	}
	cfg, cut := b.resizing(t, nothing), 0
	cfg.Progress = func(line string) {
		if strings.HasPrefix(line, "moving") {
			cut = b.number(t, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'`)
		}
	}
	done, err := resize.Run(t.Context(), cfg, wanted(8))
	if err != nil || done.Moved == 0 || cut != 1 {
		t.Errorf("%d sessions cut off, %+v: %v", cut, done, err)
	}
	if n := b.number(t, `SELECT partition_count FROM outbox_settings`); n != 8 {
		t.Errorf("there are %d partitions", n)
	}
}

// A resize for which nobody waited until it began is none.
func TestAResizeWithoutItsAskerIsGivenUp(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	ctx, leave := context.WithCancel(t.Context())
	cfg := b.resizing(t, nothing)
	cfg.Connect = func(ctx context.Context) (resize.Broker, error) {
		leave()
		<-ctx.Done()
		return resize.Broker{}, ctx.Err()
	}
	runner := resize.NewRunner(cfg, b.pool, func(ctx context.Context) (*pgxpool.Pool, error) { return pgxpool.NewWithConfig(ctx, b.pool.Config()) })
	serving, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() { runner.Serve(serving); close(ended) }()
	defer func() { stop(); <-ended }()
	wait, err := runner.Start(ctx, wanted(8))
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("who left is told %v", err)
	}
	patient, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := wait(patient); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	if _, last, err := runner.Look(t.Context()); last != nil || err != nil {
		t.Errorf("the last one is %+v: %v", last, err)
	}
}
