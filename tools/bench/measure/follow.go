package measure

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/outbox"
)

const (
	// followPoll bounds the wait for a ring of the bell.
	followPoll = 50 * time.Millisecond
	// followBack is the greatest distance of a late sequence below the highest read one of its partition.
	followBack = 10_000
	// followTurn is the least number of partitions that fill a batch, and the offset of the next step: so none starves
	// under overload.
	followTurn = 8
)

// nullFollow takes the rows above a sequence in each partition, so that it does not wade through deleted ones. It deletes
// rows by ctid, a plan that cannot flip.
const nullFollow = `WITH gone AS (
       DELETE FROM outbox_ready
        WHERE ctid = ANY (ARRAY(
              SELECT r.ctid
                FROM unnest($1::smallint[], $2::bigint[]) AS p (partition_key, after)
               CROSS JOIN LATERAL (SELECT w.ctid FROM outbox_ready AS w
                                    WHERE w.partition_key = p.partition_key AND w.global_sequence > p.after
                                    ORDER BY w.global_sequence LIMIT $3) AS r
               LIMIT $4))
    RETURNING global_sequence, partition_key, stream_id, topic)
SELECT g.global_sequence, g.partition_key, g.stream_id, g.topic, e.event_id, e.stream_version, e.event_type, e.payload
  FROM gone AS g JOIN events AS e ON e.sequence = g.global_sequence
 ORDER BY g.global_sequence`

// follow publishes committed events as soon as the bell rings, until the context ends. It deletes rows before it
// publishes them: a null relay is not safe. One reader does it, as a step is small.
func (n *nullRelay) follow(ctx context.Context) error {
	r := n.readers[0]
	r.partitions, r.after = make([]int16, n.Partitions), make([]int64, n.Partitions)
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
	highest := make([]int64, n.Partitions)
	for first := 0; ; first = (first + followTurn) % n.Partitions {
		got, err := r.followOnce(ctx, first, highest)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case got >= r.Batch/followTurn:
			continue // there may be more
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

// followOnce takes one step, the rows of the first partition first.
func (r *nullReader) followOnce(ctx context.Context, first int, highest []int64) (int, error) {
	r.begin()
	for i := range r.partitions {
		p := (first + i) % len(r.partitions)
		r.partitions[i], r.after[i] = int16(p), max(0, highest[p]-followBack) // below 32767
	}
	rows, err := r.conn.Query(ctx, "follow", pgx.QueryResultFormats{1}, r.partitions, r.after, r.Batch/followTurn, r.Batch)
	if err != nil {
		return 0, fmt.Errorf("null relay: read: %w", err)
	}
	got := 0
	for ; rows.Next(); got++ {
		values := rows.RawValues()
		p := binary.BigEndian.Uint16(values[1])
		highest[p] = max(highest[p], r.buffer.row(values))
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
