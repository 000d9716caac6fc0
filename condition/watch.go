package condition

import (
	"context"
	"sync"
	"time"
)

// Probe asks a server whether it can be worked with.
type Probe struct {
	Source string
	Ask    func(context.Context) error
}

// The rhythm of the probes: a finding is known within the sum of both.
const (
	probeEvery   = time.Second
	probeTimeout = 1500 * time.Millisecond
)

// Watch asks all probes each second until the context ends, each by itself: one that gets no answer delays no other.
func (b *Board) Watch(ctx context.Context, probes ...Probe) error {
	var running sync.WaitGroup
	for _, p := range probes {
		running.Go(func() { b.watch(ctx, p) })
	}
	running.Wait()
	return nil
}

func (b *Board) watch(ctx context.Context, p Probe) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		ask, cancel := context.WithTimeout(ctx, probeTimeout)
		err := p.Ask(ask)
		cancel()
		if ctx.Err() != nil {
			return
		}
		b.Report(p.Source, err)
		timer.Reset(probeEvery)
	}
}
