package delivery

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

func defaultRandom() float64 { return rand.Float64() } // jitter, not a secret

// Doorbell tells that something may be waiting in the outbox. A lost ring costs
// at most one PollInterval.
type Doorbell interface {
	Rung() <-chan struct{}
}

// Relay delivers the partitions of a set of leases.
type Relay struct {
	cfg       Config
	store     backend
	publisher Publisher
	bell      Doorbell
	log       *slog.Logger
	stats     stats
	shaping   *shaping
	copies    int64 // of each payload that are held at once
	cache     *lru.Cache[int64, *Event]

	finished chan carried  // published batches on their way to the mark
	freed    chan struct{} // something became claimable
	takes    chan struct{} // holds one entry for each partition that is being taken
	fatal    chan error

	mu      sync.Mutex
	flows   map[partition.ID]*flow
	room    int           // messages that still fit into the window
	cleared chan struct{} // closed when nothing is in hand; nil while nobody waits for that
	bytes   int64         // payload bytes that still fit
	pause   pause
	flowed  time.Time // when anything was published last
	created time.Time // the stream, when it was looked at last
	server  time.Time // when the database server was started that answered last
}

// backend is what a relay does in the database.
type backend interface {
	Claim(ctx context.Context, asks []Ask, limits Limits, policy FailurePolicy) (Claim, error)
	Rehydrate(ctx context.Context, found Claim, sequences []int64, maxPayload, maxBytes int64) (events map[int64]*Event, cutAt int64, err error)
	Mark(ctx context.Context, results []Result, retry RetryPolicy, random func() float64) (fenced []partition.ID, marked time.Time, err error)
	Unblock(ctx context.Context, l *lease.Lease, policy FailurePolicy) error
	Suspect(ctx context.Context, l *lease.Lease, sequence int64) error
	Raise(ctx context.Context, l *lease.Lease, epoch int64) error
	Heal(ctx context.Context, l *lease.Lease, kept uint64) (Healed, error)
	HealFormer(ctx context.Context, l *lease.Lease, ids []partition.ID, kept []int64, after int64) (h Healed, last int64, err error)
	FormerPartitions(ctx context.Context, id partition.ID) ([]FormerPartition, error)
	EveryPartition(ctx context.Context) ([]partition.ID, error)
	Regress(ctx context.Context, id partition.ID, era int, reason string) (generation int, err error)
	Position(ctx context.Context) (string, error)
	recordedAs(ctx context.Context, id partition.ID, sequences []int64, kept uint64) (found []recorded, err error)
}

// NewRelay returns a relay; Run starts it.
func NewRelay(cfg Config, store *Store, publisher Publisher, bell Doorbell) (*Relay, error) {
	return newRelay(cfg, store, publisher, bell)
}

func newRelay(cfg Config, store backend, publisher Publisher, bell Doorbell) (*Relay, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cache, err := lru.New[int64, *Event](cfg.CacheSize)
	if err != nil {
		return nil, fmt.Errorf("%w: CacheSize: %w", ErrConfig, err)
	}
	r := &Relay{
		cfg: cfg, store: store, publisher: publisher, bell: bell, log: cfg.Logger, cache: cache,
		finished: make(chan carried, 64), freed: make(chan struct{}, 1), fatal: make(chan error, 1),
		takes: make(chan struct{}, takesAtOnce), flows: map[partition.ID]*flow{},
		room: cfg.Window, bytes: cfg.WindowBytes, copies: held(cfg, publisher),
	}
	r.shaping = newShaping(cfg, r.wake)
	r.stats.init(cfg.Registerer)
	return r, nil
}

// Run delivers what the set holds until the context ends, and then finishes
// what is in flight. It returns an error that wraps ErrConfiguration when the
// broker refuses for a reason that only a person can change.
func (r *Relay) Run(ctx context.Context, held *lease.Set) error {
	return r.run(ctx, held, false)
}

// RunOnce delivers until a look at every held partition finds nothing that can
// be published now. It waits a second for transactions that hold the watermark
// back.
func (r *Relay) RunOnce(ctx context.Context, held *lease.Set) error {
	return r.run(ctx, held, true)
}

func (r *Relay) run(ctx context.Context, held *lease.Set, once bool) error {
	var publishing, marking sync.WaitGroup
	marking.Go(func() { r.markLoop(ctx) })
	err := r.claimLoop(ctx, held, once, &publishing)
	publishing.Wait()
	close(r.finished)
	marking.Wait()
	return err
}

// claimLoop claims for every partition that has nothing in flight, whenever
// there is a reason to look.
func (r *Relay) claimLoop(ctx context.Context, held *lease.Set, once bool, publishing *sync.WaitGroup) error {
	poll := time.NewTimer(0)
	defer poll.Stop()
	extent := time.NewTicker(r.cfg.ExtentInterval)
	defer extent.Stop()
	r.checkExtent(ctx)
	wait := patience{least: watermarkPoll, most: r.cfg.PollInterval}
	little := true
	var still quiet
	for turn := 0; ; turn++ {
		last := look{began: time.Now(), little: little}
		select {
		case <-r.freed: // whatever it was for is looked for now
		default:
		}
		asks := r.enter(ctx, held.Held(), turn, publishing)
		found, position, err := r.round(ctx, asks, little, publishing)
		last.ended, last.asked, last.found = time.Now(), len(asks), found
		if len(asks) < held.Len() {
			position = ""
		}
		still.note(position, last.began)
		if len(asks) > 0 {
			little = found < littleLook
		}
		switch {
		case err != nil && ctx.Err() == nil:
			r.away(err)
		case err == nil && found == 0 && len(asks) == held.Len():
			r.idle()
		}
		next := wait.next(r.stats.watermark.Load())
		if once && err == nil && found == 0 && len(asks) == held.Len() && !wait.moving() {
			return nil
		}
		for waiting := true; waiting; {
			poll.Reset(next)
			waiting = false
			select {
			case <-ctx.Done():
				return nil
			case err := <-r.fatal:
				return err
			case <-poll.C:
				next, waiting = r.lasts(ctx, still, next)
			case <-extent.C:
				r.checkExtent(ctx)
			case <-r.freed:
			case <-held.Changed():
			case <-r.bell.Rung():
				r.lookAgain()
			}
		}
		if err := r.breathe(ctx, last); err != nil {
			return nil // the context ended: an orderly stop
		}
	}
}

// lookAgain makes the partitions that are busy be claimed once more when they
// are settled: the ring may have been for them.
func (r *Relay) lookAgain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.flows {
		f.again = f.busy()
	}
}

// enter begins work on the leases that have nothing in flight, as many as the
// window has room for. Each turn starts at another lease, so that none starves.
// Partitions that are new here are taken first, in the background.
func (r *Relay) enter(ctx context.Context, leases []*lease.Lease, turn int, publishing *sync.WaitGroup) []Ask {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.room < r.cfg.BatchSize || r.bytes <= 0 {
		return nil
	}
	var asks []Ask
	most := r.most(len(leases))
	for i := range leases {
		l := leases[(i+turn)%len(leases)]
		if f := r.flowAtLocked(l.Partition); f.busy() || !f.alone.over() || !l.Enter() {
			continue
		}
		if f := r.flowOfLocked(l); f.begin() == taking {
			publishing.Go(func() { r.take(ctx, l) })
		} else {
			asks = append(asks, r.askLocked(f, most))
		}
	}
	return asks
}

// round claims once and sends what it finds on its way. It returns the number of
// messages and, where nothing was there and nothing comes without being written, the
// position of the log for which that holds.
func (r *Relay) round(ctx context.Context, asks []Ask, little bool, publishing *sync.WaitGroup) (int, string, error) {
	if len(asks) == 0 {
		return 0, "", nil
	}
	began := r.clock()
	found, err := r.claim(ctx, asks, little)
	position := found.nothingUpTo()
	moved := r.moved(found.server)
	if moved {
		position = ""
		r.wake()
	}
	found.Batches = slices.DeleteFunc(found.Batches, func(b Batch) bool { return moved || r.outlived(b, found.since) })
	claimed := map[partition.ID]*Batch{}
	total := 0
	for i, b := range found.Batches {
		claimed[b.Lease.Partition] = &found.Batches[i]
		total += len(b.Messages)
	}
	if r.cfg.Observer != nil && (total > 0 || err != nil) {
		r.cfg.Observer.Claimed(began, len(asks), total, err)
	}
	r.mu.Lock()
	r.room -= total
	for _, a := range asks {
		f, b := r.flowOfLocked(a.Lease), claimed[a.Lease.Partition]
		if a.After == nowhere && err == nil {
			r.sweptLocked(f, b)
		}
		switch {
		case b != nil:
		case err == nil && f.careful > 0 && !f.stale: // nothing is left that could crash anybody
			f.careful = 0
			publishing.Go(func() { r.calm(ctx, a.Lease) })
		default:
			f.end(true)
			a.Lease.Leave()
		}
	}
	r.mu.Unlock()
	if total == 0 {
		found.Close()
		return 0, position, err
	}
	r.stats.claimed.Add(int64(total))
	publishing.Go(func() { r.carry(ctx, found) })
	return total, "", nil
}

// littleLook is how many messages a look may find that reads their events, too, of
// payloads up to littlePayload bytes. When more wait, the next look is a full one.
const (
	littleLook    = 256
	littlePayload = 16 << 10
)

// claim reads what may be published now.
func (r *Relay) claim(ctx context.Context, asks []Ask, little bool) (Claim, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.StatementTimeout)
	defer cancel()
	r.mu.Lock()
	limits := Limits{Total: r.room, UpTo: unbounded, Watermark: r.cfg.Ordering == OrderPartition}
	r.mu.Unlock()
	if little {
		limits.Total, limits.Payload = min(limits.Total, littleLook), min(littlePayload, r.cfg.MaxPayload)
	}
	if r.cfg.Failure.passes() || r.cfg.Failure.skipsDead() {
		// What operators requeue is blocked as by default.
		for _, a := range asks {
			if a.After != nowhere || r.cfg.Ordering != OrderPartition {
				continue
			}
			if err := r.store.Unblock(ctx, a.Lease, r.cfg.Failure); err != nil {
				return Claim{}, err
			}
		}
	}
	found, err := r.store.Claim(ctx, asks, limits, r.cfg.Failure)
	if err == nil && limits.Watermark {
		r.stats.watermark.Store(&found.Watermark)
	}
	return found, err
}

// settled ends a batch: its partition may be claimed again. What is left of very large payloads goes before the next ones are read: the
// collector by itself would let them gather.
func (r *Relay) settled(b Batch, messages int, bytes int64) {
	if bytes > r.cfg.WindowBytes/2 {
		runtime.GC()
	}
	r.mu.Lock()
	f := r.flowOfLocked(b.Lease)
	again := f.again || b.More
	f.end(true)
	full := r.room < r.cfg.BatchSize || r.bytes <= 0
	r.roomLocked(messages)
	r.bytes += bytes
	r.mu.Unlock()
	b.Lease.Leave()
	if again || full {
		r.wake()
	}
}

// roomLocked gives back what settled messages took of the window.
func (r *Relay) roomLocked(messages int) {
	r.room += messages
	if r.cleared != nil && r.room >= r.cfg.Window {
		close(r.cleared)
		r.cleared = nil
	}
}

// wake has the outbox looked at again.
func (r *Relay) wake() {
	select {
	case r.freed <- struct{}{}:
	default:
	}
}
