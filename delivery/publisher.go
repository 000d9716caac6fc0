package delivery

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// Publisher publishes messages.
//
// It is called for many partitions at once, but for one partition never twice
// at a time.
type Publisher interface {
	// Take makes the publisher ready to publish the partition under that lease:
	// once for each lease before anything is published, and again after an
	// outcome that wraps ErrUnknown. When it returns, nothing that was sent for
	// the partition before can be stored any more. Known is what the database knows of the stream.
	Take(ctx context.Context, l *lease.Lease, known Known) (Standing, error)

	// Publish publishes batches of different partitions, those of one look at the
	// outbox, and returns when it has called done for each: with its index and one
	// outcome for each of its messages, in order, as soon as they are known and from
	// any goroutine. It must keep each batch's order, must not let a message pass a
	// failed one that the batch's Policy lets it wait for, and must stop when its
	// lease ends: what has no definite answer by then is Unresolved.
	Publish(look []Batch, done func(batch int, outcomes []Outcome))

	// Kept returns the Kept of a partition that is not taken, as the stream says it now:
	// of one that nobody can take any more, or whose owner waits.
	Kept(ctx context.Context, id partition.ID) (uint64, error)

	// Between returns what records of the partition name that lie between two positions, both left
	// out: those of the first ones, and where the last of these lies. When there is none it returns after.
	Between(ctx context.Context, id partition.ID, after, before uint64) (last uint64, named []Delivered, err error)

	// Extent returns what the stream holds now.
	Extent(ctx context.Context) (Extent, error)

	// Capabilities returns the present limits of server and stream.
	Capabilities() Capabilities

	// Ready is closed once what Publish is given would be sent at once: what is claimed before only waits, and its
	// partitions with it. Nil: it always is.
	Ready() <-chan struct{}

	// Records tells where the last record of a session lies, and how many it has written up to that.
	Records(s Session) (last, written uint64)
	// Trim removes records of a partition that lie before one of the session's, of which Records told: hardly any is ever read again. Where
	// there are many it removes some, and then there are more. Where nobody may the error wraps ErrConfiguration.
	Trim(ctx context.Context, id partition.ID, s Session, last, written uint64) (more bool, err error)
}

// Capabilities are the abilities and limits of a publisher's server and stream.
type Capabilities struct {
	// Steps (ADR 25): only one message of a partition may be in flight. Many partitions at once are fast, however little is given of each.
	Steps bool
	// Largest is the largest payload that could be sent at all, in bytes, and Limit whose limit that is; 0: any, as where payloads
	// are compressed. Larger ones are not read.
	Largest int64
	Limit   string
	// Copies counts the further copies of a payload that the publisher holds until the message has its outcome.
	Copies int
}

// Extent is the range of positions in a stream, with its settings.
type Extent struct {
	// First and Last are positions; both are 0 for a stream that never held
	// anything.
	First, Last uint64
	// Created is the stream's creation time.
	Created time.Time
	// MaxAge is the age at which the stream drops a message; 0: it keeps each as long as there is room.
	MaxAge time.Duration
	// Unfit names the setting by which the stream would not keep what it acknowledges: nothing may be published or healed. Nil: it fits.
	Unfit error
}

// Known is the last acknowledged position of a partition, Fence, in that life of its records; "": of none.
type Known struct {
	Fence uint64
	Life  string
}

// Life is a time in which the stream lost no record of a partition. The next one begins with a record of whoever misses one.
type Life struct {
	// ID begins with LifeNumber.
	ID string `json:"id"`
	// Kept is the position up to which it holds all that was acknowledged in the life before.
	Kept uint64 `json:"kept,omitempty"`
}

// LifeNumber is higher than that of each life before, as far as anybody knows; 0: none is known. A copy of the stream that was restored
// knows of lower ones than the database, and a database that forgot knows of lower ones than the stream.
func LifeNumber(id string) int {
	number, _, _ := strings.Cut(id, ".")
	n, _ := strconv.Atoi(number) // each began by NextLife
	return n
}

// NextLife begins one behind another: the stream holds the partition up to there.
func NextLife(last string, kept uint64) Life {
	return Life{ID: fmt.Sprintf("%d.%s", LifeNumber(last)+1, rand.Text()[:12]), Kept: kept}
}

// Session is a publisher's own state of a partition that it took. A batch without one
// was not taken.
type Session any

// Standing is the state of the stream that a publisher found when it took a partition.
type Standing struct {
	// Session comes with every batch that is published, until the partition is taken again.
	Session Session
	// Kept: up to this position the stream holds whatever was ever acknowledged
	// for the partition: it is where the record of the last batch was found, to compare with the last one known.
	Kept uint64
	// Lives are the last ones of the partition's records, and its present one behind them.
	Lives []Life
	// Fence is the position of the partition's new control message.
	Fence uint64
	// Delivered are the messages of the last batch that the stream holds. Their
	// marks may be missing.
	Delivered []Delivered
}

// Delivered is a message that the stream holds.
type Delivered struct {
	Sequence   int64
	Generation int
	// Era is the outbox's generation under which it was published.
	Era int
	// Identity is IdentityOf the event's UUID: a sequence alone
	// may be used again after a failover of the database.
	Identity       uint64
	StreamSequence uint64
}

// IdentityOf shortens an event's UUID to its last 8 bytes, the random ones of
// versions 4 and 7.
func IdentityOf(id uuid.UUID) uint64 { return binary.BigEndian.Uint64(id[8:]) }

// Sentinels that a publisher wraps into the Err of Unresolved outcomes and into
// what Take returns.
var (
	// ErrOutage means that the broker cannot take messages now.
	ErrOutage = errors.New("broker unavailable")
	// ErrUnknown means that a message may or may not have been stored.
	ErrUnknown = errors.New("acknowledgement unknown")
	// ErrConfiguration means that nothing will succeed before a person changes
	// a setting; the relay stops.
	ErrConfiguration = errors.New("broker configuration")
	// ErrFenced means that the stream knows a newer owner of the partition; see
	// FencedError.
	ErrFenced = errors.New("fenced by a newer owner")
	// ErrStreamForgot: the stream does not hold what a shadow replay has noted.
	ErrStreamForgot = errors.New("the stream was made anew or restored, and lacks what was replayed: cancel this replay, and begin another")
)

// FencedError is an ErrFenced that says which epoch the stream knows.
type FencedError struct{ Epoch, Ours int64 }

func (e *FencedError) Error() string {
	return fmt.Sprintf("%v: epoch %d, ours is %d", ErrFenced, e.Epoch, e.Ours)
}

// Unwrap makes it an ErrFenced.
func (e *FencedError) Unwrap() error { return ErrFenced }

// LostSince returns up to where the stream holds what was acknowledged of a partition, if it lost some of what is known.
func (s Standing) LostSince(known Known) (kept uint64, is bool) {
	kept, is = s.Kept, known.Life != "" && known.Life != s.Life()
	for i := len(s.Lives) - 1; is && i >= 0 && s.Lives[i].ID != known.Life && LifeNumber(s.Lives[i].ID) >= LifeNumber(known.Life); i-- {
		kept = min(kept, s.Lives[i].Kept) // what a life before the known one kept says nothing
	}
	return kept, is || kept < known.Fence
}

// Life is the present one of the partition's records.
func (s Standing) Life() string {
	if len(s.Lives) == 0 {
		return ""
	}
	return s.Lives[len(s.Lives)-1].ID
}

// breather is the rest behind a purge, in multiples of the purge's time.
const breather = 20

// Breathe waits after a purge that took so long.
func Breathe(ctx context.Context, took time.Duration) error {
	timer := time.NewTimer(breather * took)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
