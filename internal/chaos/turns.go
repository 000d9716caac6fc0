package chaos

import (
	"context"
	"math/rand/v2"
	"time"
)

// Mishap is something that can be made to happen to a cluster.
type Mishap struct {
	// Kind names it in counts, in a few words: "worker killed". Kinds of a run differ.
	Kind string
	// Strike makes it happen, to a victim drawn from random alone, and returns when it has begun.
	Strike func(ctx context.Context, random *rand.Rand) (Struck, error)
}

// Struck is a mishap that has begun.
type Struck struct {
	// Text names the deed: "killed worker 2". Then names the timed end: "its 21 partitions moved".
	Text, Then string
	// Over reports, by later looks, whether the cluster coped, besides catching up. Defaults to: it has.
	Over func(Look) bool
	// Mend undoes it, after which the cluster becomes whole. Defaults to: nothing is to be undone.
	Mend func(context.Context) error
}

// Turns is an endless order of mishaps: rounds, in each of which every one comes once. It is a function of the seed.
type Turns struct {
	seed   uint64
	kinds  int
	order  *rand.Rand
	round  []int
	number uint64
}

// NewTurns begins the order of this seed over so many mishaps.
func NewTurns(seed uint64, kinds int) *Turns {
	return &Turns{seed: seed, kinds: kinds, order: rand.New(rand.NewPCG(seed, 0))}
}

// Next returns the index of the next mishap, and random numbers of its own: however many it draws, the order stays.
func (t *Turns) Next() (int, *rand.Rand) {
	if len(t.round) == 0 {
		t.round = t.order.Perm(t.kinds)
	}
	next := t.round[0]
	t.round = t.round[1:]
	t.number++
	return next, rand.New(rand.NewPCG(t.seed, t.number))
}

// KillWorker ends a worker with SIGKILL; it is over when the others have its partitions, and mended by a new worker.
func (c *Crew) KillWorker() Mishap {
	return Mishap{Kind: "worker killed", Strike: func(ctx context.Context, random *rand.Rand) (Struck, error) {
		victim := c.Members()[random.IntN(len(c.workers))]
		struck := Struck{
			Text: "killed " + workerName(victim.Number), Then: "its partitions moved", Over: movedFrom(victim),
			Mend: func(ctx context.Context) error { return c.Replace(ctx, victim.Number) },
		}
		return struck, c.Kill(ctx, victim.Number)
	}}
}

// unmarkedFor is the time for which marks are held before a kill: less than their wait for a lock, and enough for several batches.
const unmarkedFor = 1500 * time.Millisecond

// KillUnmarked kills a worker that has published several batches of each partition and could mark none: hold blocks marks until end is
// called.
func (c *Crew) KillUnmarked(hold func(context.Context) (end func(), err error)) Mishap {
	killed := c.KillWorker()
	return Mishap{Kind: "worker killed, marks held", Strike: func(ctx context.Context, random *rand.Rand) (Struck, error) {
		end, err := hold(ctx)
		if err != nil {
			return Struck{}, err
		}
		defer end()
		select {
		case <-time.After(unmarkedFor):
		case <-ctx.Done():
			return Struck{}, context.Cause(ctx)
		}
		struck, err := killed.Strike(ctx, random)
		struck.Text += ", its marks held"
		return struck, err
	}}
}

// FreezeWorker stops a worker with SIGSTOP until the others have its partitions, and lets it go on: its unfinished work is not its own any
// longer. Not on Windows.
func (c *Crew) FreezeWorker() Mishap {
	return Mishap{Kind: "worker frozen", Strike: func(_ context.Context, random *rand.Rand) (Struck, error) {
		victim := c.Members()[random.IntN(len(c.workers))]
		struck := Struck{
			Text: "froze " + workerName(victim.Number), Then: "its partitions moved", Over: movedFrom(victim),
			Mend: func(context.Context) error { return c.Wake(victim.Number) },
		}
		return struck, c.Freeze(victim.Number)
	}}
}

func movedFrom(victim Member) func(Look) bool {
	return func(l Look) bool { return l.Unowned == 0 && l.Owned[victim.ID] == 0 }
}
