package loop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/shape"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

func defaultRandom() float64 { return rand.Float64() } // jitter, not a secret

// Doorbell announces that events may wait in the outbox. A lost ring costs
// at most one PollInterval.
type Doorbell interface {
	// Rung receives after rings.
	Rung() <-chan struct{}
	// Heard returns which partitions were named by the rings since it was asked last;
	// every: one named none, and is for all.
	Heard() (named []partition.ID, every bool)
}

// Silence is a doorbell that nobody rings.
type Silence struct{}

// Rung implements Doorbell.
func (Silence) Rung() <-chan struct{} { return nil }

// Heard implements Doorbell.
func (Silence) Heard() ([]partition.ID, bool) { return nil, false }

// Relay delivers the partitions of a set of leases.
//
// One goroutine, the loop, owns the partitions' states and the window. Takeovers, reading, publishing and
// marks are work of other goroutines, which tell the loop what came of it.
type Relay struct {
	cfg       Config
	store     delivery.Store
	publisher delivery.Publisher
	bell      Doorbell
	log       *slog.Logger
	stats     stats
	shaping   *shape.Shaper
	copies    int64 // of each payload that are held at once
	cache     *lru.Cache[cacheKey, *delivery.Event]
	takes     chan struct{} // holds one entry for each partition that is being taken
	mail      mailbox       // reports for the loop
	working   sync.WaitGroup

	// What follows is the loop's own.

	partitions map[partition.ID]*partitionState
	stopping   <-chan struct{} // closed when the relay is to end
	work       int             // pieces of work that have not ended
	expecting  bool            // parked rows may come due, as the last claim saw it
	all        bool            // the next look asks for every partition
	woken      bool            // there is a reason to look
	advancing  bool            // the watermark is being stored
	behind     bool            // it could not be stored
	room       int             // messages that still fit into the window, which ends with their marks
	bytes      int64           // payload bytes that still fit
	unanswered int             // messages from claim to answer
	marks      marker
	pause      pause
	trimming   bool      // old records are being removed
	trimAgain  time.Time // not before
	created    time.Time // the stream, when it was looked at last
	unfit      error     // the stream, as it was then: nothing is claimed
	maxAge     time.Duration
	held       error // why nothing may be claimed, as Hold said
	fatal      error // ends the loop
}

// NewRelay returns a relay; Run starts it.
func NewRelay(cfg Config, store delivery.Store, publisher delivery.Publisher, bell Doorbell) (*Relay, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cache, err := lru.New[cacheKey, *delivery.Event](cfg.CacheSize)
	if err != nil {
		return nil, fmt.Errorf("%w: CacheSize: %w", delivery.ErrConfig, err)
	}
	r := &Relay{
		cfg: cfg, store: store, publisher: publisher, bell: bell, log: cfg.Logger, cache: cache,
		takes: make(chan struct{}, takesAtOnce), mail: newMailbox(), partitions: map[partition.ID]*partitionState{},
		room: cfg.Window, bytes: cfg.WindowBytes, copies: copiesOf(cfg, publisher),
	}
	r.shaping = shaperOf(cfg, func() { r.mail.post(returned{}) })
	r.stats.init(cfg.Registerer)
	return r, nil
}

// Run delivers what the set holds until the context ends, and then finishes
// what is in flight. It returns an error that wraps ErrConfiguration when the
// broker refuses for a reason that only a person can change.
func (r *Relay) Run(ctx context.Context, held *lease.Set) error {
	return r.loop(ctx, held, false)
}

// RunOnce delivers until a look at every held partition finds nothing that can
// be published now. It waits a second for transactions that hold the watermark
// back.
func (r *Relay) RunOnce(ctx context.Context, held *lease.Set) error {
	return r.loop(ctx, held, true)
}

// finish waits until all work has ended, and makes the marks that are left.
func (r *Relay) finish(ctx context.Context) {
	for r.read(); r.work > 0 || r.marks.waiting(); r.read() {
		if r.mark(ctx, time.Time{}) {
			continue
		}
		<-r.mail.arrived
	}
	r.working.Wait()
}

// enter begins work on the leases that have nothing under way, as many as the
// window has room for: every one, or those that were named. Each turn starts at another
// lease, so that none starves. Partitions that are new here are taken first, in the background.
func (r *Relay) enter(ctx context.Context, leases []*lease.Lease, turn int, every bool) []delivery.Ask {
	if r.room < r.cfg.BatchSize || r.bytes <= 0 {
		return nil
	}
	var asks []delivery.Ask
	most := r.claimLimit(len(leases))
	for i := range leases {
		l := leases[(i+turn)%len(leases)]
		if f := r.stateAt(l.Partition); !every && !f.requested || f.busy() || !f.alone.over() {
			continue
		}
		f := r.stateOf(l)
		if f.state == fresh && len(f.unmarked) > 0 || !l.Enter() { // what the stream holds is looked up when all that is known of it is marked
			continue
		}
		if f.begin() == taking {
			r.take(ctx, l, f.term)
		} else {
			asks = append(asks, r.ask(f, most))
			f.requested = false
		}
	}
	if every {
		r.all = false
		for id, f := range r.partitions { // also of those that others hold by now
			f.requested = false
			if f.lease != nil && !f.lease.Valid() {
				r.resume(id) // whoever holds it reports its pauses
			}
		}
	}
	return asks
}

// round claims once and sends what it finds on its way. It returns the number of
// messages and, where nothing was there and nothing comes without being written, the
// position of the log for which that holds.
func (r *Relay) round(ctx context.Context, asks []delivery.Ask, l look) (int, string, error) {
	if len(asks) == 0 {
		return 0, "", nil
	}
	began := r.clock()
	found, err := r.claim(ctx, asks, l)
	if found.Advance && !r.advancing {
		r.advance(ctx, l.apart())
	}
	if errors.Is(err, delivery.ErrForgotten) {
		err = r.forgotten(ctx, asks, err)
	}
	position := found.NothingUpTo()
	claimed := map[partition.ID]*delivery.Batch{}
	total := 0
	for i, b := range found.Batches {
		claimed[b.Lease.Partition] = &found.Batches[i]
		total += len(b.Messages)
	}
	if r.cfg.Observer != nil && (total > 0 || err != nil) {
		r.cfg.Observer.Claimed(began, len(asks), total, err)
	}
	for _, a := range asks {
		f, b := r.stateOf(a.Lease), claimed[a.Lease.Partition]
		if a.After == nowhere && err == nil {
			r.sweptThrough(f, b)
		}
		if b == nil {
			f.end(true)
			a.Lease.Leave()
		}
		if a.Requested && (err != nil || found.Watermark.Lag() > 0) { // what it was named for may not be decided yet
			f.requested = true
		}
	}
	if total == 0 {
		return 0, position, err
	}
	r.stats.claimed.Add(int64(total))
	r.dispatch(ctx, found, total)
	return total, "", nil
}

// littleLook bounds the messages of a look that reads their events, too, of
// payloads up to littlePayload bytes. When more wait, the next look is a full one.
const (
	littleLook    = 256
	littlePayload = 16 << 10
)

func (r *Relay) claim(ctx context.Context, asks []delivery.Ask, l look) (delivery.Claim, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.StatementTimeout)
	defer cancel()
	limits := delivery.Limits{Total: r.room, UpTo: unbounded, Watermark: r.cfg.Ordering == delivery.OrderPartition, Apart: l.apart(), Longest: r.cfg.Retry.Max}
	if !l.every { // polls find what comes due
		limits.ReadyOnly = !r.expecting
	}
	if r.behind {
		if _, err := r.store.Advance(ctx, limits.Apart); err != nil {
			return delivery.Claim{}, err
		}
		r.behind = false
	}
	if l.little {
		limits.Total, limits.Payload = min(limits.Total, littleLook), min(littlePayload, r.cfg.MaxPayload)
	}
	if r.cfg.Failure.Passes() || r.cfg.Failure.SkipsDead() {
		// What operators requeue is blocked as by default.
		for _, a := range asks {
			if a.After != nowhere || r.cfg.Ordering != delivery.OrderPartition {
				continue
			}
			if err := r.store.Unblock(ctx, a.Lease, r.cfg.Failure); err != nil {
				return delivery.Claim{}, err
			}
		}
	}
	found, err := r.store.Claim(ctx, asks, limits, r.cfg.Failure)
	if err == nil {
		r.expecting = found.Expecting
	}
	if err == nil && limits.Watermark {
		r.stats.watermark.Store(&found.Watermark)
	}
	return found, err
}

// advance has the watermark stored, which no look waits for. Where that fails, the next look does it first, and fails with it.
func (r *Relay) advance(ctx context.Context, apart int) {
	r.advancing = true
	r.begin(func() report {
		within, cancel := context.WithTimeout(ctx, r.cfg.StatementTimeout)
		defer cancel()
		_, err := r.store.Advance(within, apart)
		return advanced{err}
	})
}
