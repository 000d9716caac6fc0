package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/outbox"
)

const (
	// followPoll is how long a ring of the bell may be missing.
	followPoll = 50 * time.Millisecond
	// followBack is how far below the highest sequence seen a late one may turn up.
	followBack = 10_000
)

// nullFollow takes what is there above a place, which keeps it from wading through what it deleted. Rows are deleted by
// where they lie, a plan that cannot flip.
const nullFollow = `WITH gone AS (
       DELETE FROM outbox_ready
        WHERE ctid = ANY (ARRAY(
              SELECT r.ctid
                FROM unnest($1::smallint[]) AS p (partition_key)
               CROSS JOIN LATERAL (SELECT w.ctid FROM outbox_ready AS w
                                    WHERE w.partition_key = p.partition_key AND w.global_sequence > $2
                                    ORDER BY w.global_sequence LIMIT $3) AS r
               LIMIT $3))
    RETURNING global_sequence, partition_key, stream_id, topic)
SELECT g.global_sequence, g.partition_key, g.stream_id, g.topic, e.event_id, e.stream_version, e.event_type, e.payload
  FROM gone AS g JOIN events AS e ON e.sequence = g.global_sequence
 ORDER BY g.global_sequence`

// follow publishes what is committed, as soon as the bell rings, until the context ends. What it has read is deleted
// before it is published: a null relay is not safe. One reader does it, as a step is small.
func (n *nullRelay) follow(ctx context.Context) error {
	r := n.readers[0]
	r.partitions = nil
	for p := range n.Partitions {
		r.partitions = append(r.partitions, int16(p)) //nolint:gosec // below 32767
	}
	if _, err := r.conn.Prepare(ctx, "follow", nullFollow); err != nil {
		return fmt.Errorf("null relay: %w", err)
	}
	bell, err := nats.Connect(strings.Split(n.NATS, ",")[0])
	if err != nil {
		return fmt.Errorf("null relay: the bell: %w", err)
	}
	defer bell.Close()
	rings := make(chan *nats.Msg, 1024)
	if _, err := bell.ChanSubscribe(outbox.BellSubject("public"), rings); err != nil {
		return fmt.Errorf("null relay: the bell: %w", err)
	}
	poll := time.NewTicker(followPoll)
	defer poll.Stop()
	highest := int64(0)
	for {
		got, err := r.followOnce(ctx, &highest)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case got == r.Batch:
			continue // there is more
		}
		select {
		case <-ctx.Done():
			return nil
		case <-poll.C:
		case <-rings:
			for len(rings) > 0 {
				<-rings
			}
		}
	}
}

// followOnce takes one step.
func (r *nullReader) followOnce(ctx context.Context, highest *int64) (int, error) {
	r.begin()
	rows, err := r.conn.Query(ctx, "follow", pgx.QueryResultFormats{1}, r.partitions, max(0, *highest-followBack), r.Batch)
	if err != nil {
		return 0, fmt.Errorf("null relay: read: %w", err)
	}
	got := 0
	for ; rows.Next(); got++ {
		*highest = max(*highest, r.buffer.row(rows.RawValues()))
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return 0, fmt.Errorf("null relay: read: %w", err)
	}
	f, err := r.send(ctx)
	if f == nil || err != nil {
		return got, err
	}
	if err := f.wait(ctx); err != nil {
		return got, errors.Join(errors.New("null relay: publish"), err)
	}
	return got, nil
}
