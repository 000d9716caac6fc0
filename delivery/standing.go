package delivery

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// recorded is what the database says of a sequence that the stream names.
type recorded struct {
	Pointer
	Event uuid.NullUUID
	// Expected tells that the event, if it is missing, was not removed on purpose.
	Expected bool
	// Waiting tells that the sequence is in the outbox.
	Waiting bool
}

// recordedAs looks the sequences up in events and outbox. The stream names them in
// a record at the position kept, 0 where it does not.
func (s *Store) recordedAs(ctx context.Context, id partition.ID, sequences []int64, kept uint64) (found []recorded, err error) {
	args := pg.Args{"partition": id, "sequences": sequences, "record": int64(kept)} // a stream's sequence never reaches 2^63
	found, err = pg.Collect(ctx, s.db, s.sql.Undelivered, args, func(row pgx.CollectableRow) (recorded, error) {
		r := recorded{Pointer: Pointer{Partition: id}}
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

// Taken holds the database's knowledge of a partition at its takeover.
type Taken struct {
	// Revision is the row's number: a takeover sets a random one, and each mark adds one. Who finds another one than was left
	// knows that somebody else took the partition since, or that the database has forgotten marks, and takes it anew.
	Revision int64
	// Recorded is the position of the last record of which the database knows: all events that records name up to there are marked.
	Recorded uint64
	// Life is that of the partition's records of which the positions are.
	Life string
}

// lost returns up to where the stream holds what was acknowledged of a partition, if it lost some of what is known.
func (s Standing) lost(known Known) (kept uint64, is bool) {
	kept, is = s.Kept, known.Life != "" && known.Life != s.life()
	for i := len(s.Lives) - 1; is && i >= 0 && s.Lives[i].ID != known.Life && LifeNumber(s.Lives[i].ID) >= LifeNumber(known.Life); i-- {
		kept = min(kept, s.Lives[i].Kept) // what a life before the known one kept says nothing
	}
	return kept, is || kept < known.Fence
}

// life is the present one of the partition's records.
func (s Standing) life() string {
	if len(s.Lives) == 0 {
		return ""
	}
	return s.Lives[len(s.Lives)-1].ID
}

// Take begins a takeover: no mark of an earlier one is made from now on. A row that knows of no life of the records gets that one.
func (s *Store) Take(ctx context.Context, l *lease.Lease, life string) (Taken, error) {
	row := Taken{Revision: 1 + rand.Int64N(math.MaxInt64>>1)}
	err := s.sql.Take.Row(ctx, s.db, pg.Args{"owner": owner(l), "epoch": l.Epoch, "partition": l.Partition, "revision": row.Revision, "life": life}).
		Scan(&row.Recorded, &row.Life)
	if errors.Is(err, pgx.ErrNoRows) {
		err = errLeaseGone
	}
	if err != nil {
		return Taken{}, fmt.Errorf("take the partition's row: %w", err)
	}
	return row, nil
}

// errLeaseGone is returned by statements that found another owner or epoch.
var errLeaseGone = errors.New("the lease went to another worker")

// Unblock frees the parked rows that the policy of this relay blocks by nothing.
func (s *Store) Unblock(ctx context.Context, l *lease.Lease, policy FailurePolicy) error {
	_, err := s.sql.Unblock.Exec(ctx, s.db, pg.Args{
		"owner": owner(l), "epoch": l.Epoch, "partition": l.Partition, "skip_dead": policy.skipsDead(), "passes": policy.passes(),
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
