package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// Recorded looks the sequences up in events and outbox. The stream names them in
// a record at the position kept, 0 where it does not.
func (s *Store) Recorded(ctx context.Context, id partition.ID, sequences []int64, kept uint64) (found []delivery.Recorded, err error) {
	args := pg.Args{"partition": id, "sequences": sequences, "record": int64(kept)} // a stream's sequence never reaches 2^63
	found, err = pg.Collect(ctx, s.db, s.sql.Undelivered, args, func(row pgx.CollectableRow) (delivery.Recorded, error) {
		r := delivery.Recorded{Pointer: delivery.Pointer{Partition: id}}
		var event pgtype.UUID
		err := row.Scan(&r.Sequence, &event, &r.Waiting, &r.Generation, &r.Attempts, &r.Stream, &r.Topic, &r.Parked, &r.Expected)
		r.Event = uuid.NullUUID{UUID: event.Bytes, Valid: event.Valid}
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("look up what the stream holds: %w", err)
	}
	return found, nil
}

// owner is the lease's owner as the statements compare it.
func owner(l *lease.Lease) *uuid.UUID {
	if l.Solo() {
		return nil
	}
	return &l.Owner
}

// Take begins a takeover: no mark of an earlier one is made from now on. A row that knows of no life of the records gets that one.
func (s *Store) Take(ctx context.Context, l *lease.Lease, life string) (delivery.Taken, error) {
	row := delivery.Taken{Revision: 1 + rand.Int64N(math.MaxInt64>>1)}
	err := s.sql.Take.Row(ctx, s.db, pg.Args{"owner": owner(l), "epoch": l.Epoch, "partition": l.Partition, "revision": row.Revision, "life": life}).
		Scan(&row.Recorded, &row.Life)
	if errors.Is(err, pgx.ErrNoRows) {
		err = delivery.ErrLeaseGone
	}
	if err != nil {
		return delivery.Taken{}, fmt.Errorf("take the partition's row: %w", err)
	}
	return row, nil
}

// Unblock frees the parked rows that the policy of this relay blocks by nothing.
func (s *Store) Unblock(ctx context.Context, l *lease.Lease, policy delivery.FailurePolicy) error {
	_, err := s.sql.Unblock.Exec(ctx, s.db, pg.Args{
		"owner": owner(l), "epoch": l.Epoch, "partition": l.Partition, "skip_dead": policy.SkipsDead(), "passes": policy.Passes(),
	})
	if err != nil {
		return fmt.Errorf("unblock parked rows: %w", err)
	}
	return nil
}

// Carrying notes, durably, that messages of partitions are about to be carried, or that nothing came of it.
func (s *Store) Carrying(ctx context.Context, leases []*lease.Lease, is bool) error {
	ids, epochs := make([]partition.ID, len(leases)), make([]int64, len(leases))
	for i, l := range leases {
		ids[i], epochs[i] = l.Partition, l.Epoch
	}
	_, err := s.sql.Carrying.Exec(ctx, s.db, pg.Args{"owner": owner(leases[0]), "partitions": ids, "epochs": epochs, "carrying": is})
	if err != nil {
		return fmt.Errorf("note what is carried: %w", err)
	}
	return nil
}

// PauseOver pauses a partition over which so many owners ended, and returns its first message; 0: it was not paused.
func (s *Store) PauseOver(ctx context.Context, l *lease.Lease, most int, reason string) (sequence int64, stream string, err error) {
	err = s.sql.PauseOver.Row(ctx, s.db, pg.Args{"owner": owner(l), "epoch": l.Epoch, "partition": l.Partition, "most": most, "reason": reason}).
		Scan(&sequence, &stream)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return 0, "", fmt.Errorf("pause the partition: %w", err)
	}
	return sequence, stream, nil
}

// Raise has the partition's next lease lie above the epoch that the stream knows,
// unless it went to another owner already.
func (s *Store) Raise(ctx context.Context, l *lease.Lease, epoch int64) error {
	_, err := s.sql.Raise.Exec(ctx, s.db, pg.Args{"owner": owner(l), "epoch": l.Epoch, "partition": l.Partition, "known": epoch})
	if err != nil {
		return fmt.Errorf("raise the epoch: %w", err)
	}
	return nil
}

// Regress notes that the database has forgotten what was published under that era,
// the outbox's generation of then, and raises the generation of all messages to come
// above it. It returns the new one, or 0 when it is above it already.
func (s *Store) Regress(ctx context.Context, id partition.ID, era int, reason string) (generation int, err error) {
	if err := s.sql.Regress.Row(ctx, s.db, pg.Args{"reason": reason, "partition": id, "era": era}).Scan(&generation); err != nil {
		return 0, fmt.Errorf("raise the generation: %w", err)
	}
	return generation, nil
}
