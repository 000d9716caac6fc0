package delivery

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// Store is the outbox as a relay needs it; package pgstore has it in PostgreSQL. What writes compares the lease first: ErrLeaseGone.
type Store interface {
	// Claim reads the next rows of the partitions asked for. ErrForgotten: the row of one of them is not as it was left.
	Claim(ctx context.Context, asks []Ask, limits Limits, policy FailurePolicy) (Claim, error)
	// Forgotten names these partitions.
	Forgotten(ctx context.Context, asks []Ask) ([]partition.ID, error)
	// Advance proves the watermark, and stores it where it comes apart sequences further.
	Advance(ctx context.Context, apart int) (Watermark, error)
	// Position is the end of the server's log.
	Position(ctx context.Context) (string, error)
	// Rehydrate reads events of the server that was started then, up to so many bytes each and together. It leaves out those from cutAt on.
	Rehydrate(ctx context.Context, server time.Time, sequences []int64, maxPayload, maxBytes int64) (events map[int64]*Event, cutAt int64, err error)
	// Mark settles results in one transaction, and returns the partitions that are another owner's.
	Mark(ctx context.Context, results []Result, retry RetryPolicy, random func() float64) (fenced []partition.ID, err error)

	// Take begins a takeover: no mark of an earlier one is made from then on.
	Take(ctx context.Context, l *lease.Lease, life string) (Taken, error)
	// Raise has the next lease lie above an epoch that the stream knows.
	Raise(ctx context.Context, l *lease.Lease, epoch int64) error
	// Recorded looks up sequences that a record at that position names.
	Recorded(ctx context.Context, id partition.ID, sequences []int64, kept uint64) ([]Recorded, error)
	// Regress raises the generation above that era, whose commits are lost; 0: it lies above it already.
	Regress(ctx context.Context, id partition.ID, era int, reason string) (generation int, err error)
	// Unblock frees parked rows that the policy blocks by nothing.
	Unblock(ctx context.Context, l *lease.Lease, policy FailurePolicy) error
	// Carrying notes durably that messages are about to be published, or that nothing came of it.
	Carrying(ctx context.Context, leases []*lease.Lease, is bool) error
	// PauseOver pauses a partition over whose first message, which it returns, so many owners ended.
	PauseOver(ctx context.Context, l *lease.Lease, most int, reason string) (sequence int64, stream string, err error)

	// Heal queues again a page of what the stream lost. HealFormer does so for partitions that are no more.
	Heal(ctx context.Context, l *lease.Lease, loss Loss, before BatchAt) (h Healed, next BatchAt, done bool, err error)
	HealFormer(ctx context.Context, l *lease.Lease, ids []partition.ID, kept []int64, age time.Duration, after int64) (h Healed, last int64, err error)
	// FormerPartitions are those that a partition answers for, EveryPartition all that there are and were.
	FormerPartitions(ctx context.Context, id partition.ID) ([]FormerPartition, error)
	EveryPartition(ctx context.Context) ([]partition.ID, error)
	// Concede notes a loss that is only reported.
	Concede(ctx context.Context, l *lease.Lease, known Known) error
}

// Ask bounds the claim of one partition.
type Ask struct {
	Lease *lease.Lease
	// Revision is the number that the partition's row was left with, see Taken; 0: who asks only looks.
	Revision int64
	// After is the partition's cursor: ready rows up to it are not looked at.
	After int64
	// Most is the most rows.
	Most int

	// Requested: by a ring, or since more may wait.
	Requested bool
}

// Limits bound a claim over all partitions.
type Limits struct {
	// Total is the most rows.
	Total int
	// UpTo is the highest sequence that may be claimed.
	UpTo int64
	// Watermark proves how far the order is decided first, and takes that for UpTo. Apart is
	// how many sequences further than stored is worth an Advance for that alone; 1 or more.
	Watermark bool
	Apart     int
	// Longest is the longest wait for another attempt: a row that has longer to wait had its time
	// from a clock that stepped back. Defaults to that of DefaultRetryPolicy.
	Longest time.Duration
	// ReadyOnly leaves out parked rows, for where none can be due.
	ReadyOnly bool
	// Payload is the largest payload, in bytes, that comes with the claim. 0:
	// none of the events do.
	Payload int64
}

// Claim is the result of one round trip.
type Claim struct {
	Batches []Batch
	// Watermark was proven, when the limits said so. Advance: it is worth to be stored.
	Watermark Watermark
	Advance   bool
	// Events came with the claim, by sequence.
	Events map[int64]*Event
	// Began is a position of the write-ahead log before anything was read; Expecting
	// means that rows may come due although nothing is written.
	Began     string
	Expecting bool
	Server    time.Time // the start of the server that answered
}

// NothingUpTo returns the position of the log up to which nothing can be claimed; empty:
// something can, or could without being written.
func (c *Claim) NothingUpTo() string {
	if len(c.Batches) > 0 || c.Expecting || c.Watermark.Lag() > 0 {
		return ""
	}
	return c.Began
}

// Watermark is the sequence up to which the order is decided.
type Watermark struct {
	// Safe is the watermark: every sequence up to it is visible or will never be.
	Safe int64
	// Highest is the highest visible sequence.
	Highest int64
}

// Lag is the distance in sequences, 0 when nothing waits.
func (w Watermark) Lag() int64 { return max(0, w.Highest-w.Safe) }

// ErrForgotten is returned where a partition's row is not as its owner left it: the database has forgotten marks, is another server or
// was started again, or somebody else has taken the partition.
var ErrForgotten = errors.New("the database has moved or has forgotten marks")

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

// Recorded is the database's knowledge of a sequence that the stream names.
type Recorded struct {
	Pointer
	Event uuid.NullUUID
	// Expected: the event, if it is missing, was not removed on purpose.
	Expected bool
	// Waiting: the sequence is in the outbox.
	Waiting bool
}

// ErrLeaseGone is returned by statements that found another owner or epoch.
var ErrLeaseGone = errors.New("the lease went to another worker")

// Healed counts messages that the stream lost.
type Healed struct {
	// Lost messages had been acknowledged; Queued ones of them are to be
	// published again, the others' events are not there any more.
	Lost, Queued int
}

// BatchAt is a batch in a partition's history, ordered by its first sequence.
type BatchAt struct{ First, ID int64 }

// EveryBatch lies behind all batches.
var EveryBatch = BatchAt{math.MaxInt64, math.MaxInt64}

// Loss bounds the messages that a stream lost of a partition, or of several.
type Loss struct {
	// Kept is the position up to which it holds all that was acknowledged.
	Kept uint64
	// Life is the present one of the partition's records.
	Life string
	// Age is the age at which the stream drops a message; 0: never. An older message is not lost.
	Age time.Duration
}

// FormerPartition is a partition that a resize removed.
type FormerPartition struct {
	ID partition.ID
	// Fence is the last known position of its last batch's record in the stream.
	Fence uint64
}

// StreamKey names a stream within its partition.
type StreamKey struct {
	Partition partition.ID
	Stream    string
}

// Writers are the transactions that may still write events, and what that says of the order.
type Writers struct {
	// Open names them. Highest is the highest visible sequence, Stored the watermark that is stored.
	Open            []string
	Highest, Stored int64
	// Recovered: transactions may have begun before the server was started.
	Recovered bool
}
