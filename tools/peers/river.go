package main

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/postrider/postrider/tools/bench/measure"
)

// riverWorkers is the number of concurrent jobs.
const riverWorkers = 2000

// publishJob is an event as a job.
type publishJob struct{ measure.PeerEvent }

// Kind implements river.JobArgs.
func (publishJob) Kind() string { return "publish" }

// fillRiver inserts a job for each event.
func fillRiver(ctx context.Context, database string, events iter.Seq[measure.PeerEvent]) error {
	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := createRiver(ctx, database); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	client, err := river.NewClient[pgx.Tx](riverpgxv5.New(pool), &river.Config{})
	if err != nil {
		return err
	}
	const chunk = 5000
	jobs := make([]river.InsertManyParams, 0, chunk)
	flush := func() error {
		if len(jobs) == 0 {
			return nil
		}
		_, err := client.InsertManyFast(ctx, jobs)
		jobs = jobs[:0]
		return err
	}
	for e := range events {
		if jobs = append(jobs, river.InsertManyParams{Args: publishJob{e}}); len(jobs) == chunk {
			if err := flush(); err != nil {
				return fmt.Errorf("insert: %w", err)
			}
		}
	}
	if err := flush(); err != nil {
		return fmt.Errorf("insert: %w", err)
	}
	_, err = pool.Exec(ctx, `ANALYZE`)
	return err
}

// publishWorker publishes a job's event and waits for the acknowledgement.
type publishWorker struct {
	river.WorkerDefaults[publishJob]

	js jetstream.JetStream
}

// Work implements river.Worker.
func (w *publishWorker) Work(ctx context.Context, job *river.Job[publishJob]) error {
	msg, err := job.Args.Message()
	if err != nil {
		return err
	}
	future, err := w.js.PublishMsgAsync(msg)
	if err != nil {
		return err
	}
	select {
	case <-future.Ok():
		return nil
	case err := <-future.Err():
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// drainingRiver returns the fastest configuration for a backlog.
func drainingRiver() river.Config {
	return river.Config{
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: riverWorkers}},
		FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 10 * time.Millisecond, JobTimeout: -1,
	}
}

// runRiver works the jobs as the configuration says until the context ends.
func runRiver(ctx context.Context, s measure.PeerSettings, config river.Config, begin func() error) error {
	nc, err := nats.Connect(s.NATS, nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(2*riverWorkers))
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, s.Database)
	if err != nil {
		return err
	}
	defer pool.Close()
	config.Workers = river.NewWorkers()
	if err := river.AddWorkerSafely(config.Workers, &publishWorker{js: js}); err != nil {
		return err
	}
	client, err := river.NewClient(riverpgxv5.New(pool), &config)
	if err != nil {
		return err
	}
	if err := begin(); err != nil {
		return err
	}
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	<-ctx.Done()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	return client.Stop(stop)
}
