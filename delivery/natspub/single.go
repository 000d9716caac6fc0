package natspub

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/delivery/ops/gaps"
	"github.com/postrider/postrider/partition"
)

const (
	// mostSingles bounds the messages of one Publish, of all partitions, that are stored one by one where batches could be.
	mostSingles = 16
	// mostAnnounced bounds the messages that a record announces: a takeover may have to find them among those of all partitions.
	mostAnnounced = 64
	// defaultStaging is that of a server whose files lie in memory.
	defaultStaging = 3 * time.Millisecond
)

// byOne reports whether messages are stored one by one though the stream takes batches. ofOne of them are one partition's: each waits for
// the one before, between two records.
func (f *Fenced) byOne(messages, ofOne int) bool {
	return messages <= mostSingles && int64(ofOne) <= f.seen.singles.Load() && f.roomForRecord(eachPlace) >= mostSingles
}

// stepByOne (ADR 31) stores messages one by one. A record announces them, each is stored only while that is the partition's last record,
// and a closing record names their positions. Until then no outcome is known.
func (r *fencedRun) stepByOne(ctx context.Context, indices []int) {
	for most := min(mostAnnounced, r.roomForRecord(eachPlace)); len(indices) > 0; indices = r.sendable(indices) {
		n := min(most, len(indices))
		r.announced(ctx, indices[:n])
		indices = indices[n:]
	}
}

// announced stores messages between two records.
func (r *fencedRun) announced(ctx context.Context, indices []int) {
	if r.session.batch++; !r.goesOn() {
		r.fail(nil)
		return
	}
	if _, ok := r.record(ctx, kindAnnouncement, []part{partOf(r.batch.Messages, indices)}); !ok {
		return
	}
	var list []part
	at, run := map[int]uint64{}, []int(nil) // the last messages, one directly behind the other
	for _, i := range indices {
		if r.waits(i) {
			continue
		}
		if !r.goesOn() || ctx.Err() != nil {
			break // the heir's
		}
		sequence := r.single(ctx, i)
		switch n := len(run); {
		case sequence == 0:
			continue
		case n > 0 && at[run[n-1]]+1 == sequence:
			run, list = append(run, i), list[:len(list)-1]
		default:
			run = []int{i}
		}
		at[i] = sequence
		p := partOf(r.batch.Messages, run)
		p.First = at[run[0]]
		list = append(list, p)
	}
	if r.failed {
		return
	}
	closing, ok := r.record(ctx, kindWatermark, list)
	if !ok {
		return
	}
	r.session.kept, r.session.parts = closing, list
	for i, sequence := range at {
		r.outcomes[i] = delivery.Outcome{Kind: delivery.Published, StreamSequence: sequence, FenceSequence: closing}
	}
}

// record writes a record behind the partition's last one, and returns where it lies.
func (r *fencedRun) record(ctx context.Context, kind string, parts []part) (at uint64, ok bool) {
	denied := r.nc.LastError()
	ans := r.ask(ctx, r.next(kind, r.attempt(), 0, parts))
	switch {
	case ans.Err != nil && kind == kindAnnouncement && (wire.Refusal(ans.Err) == wire.CodeStreamFull || wire.NoRoom(wire.Refusal(ans.Err))):
		r.give(false, ans.Err) // nothing was stored
	case ans.Err != nil:
		r.lost(denied, ans.Err)
	case ans.Stream != r.cfg.Stream:
		r.fail(r.foreign(r.subject, ans.Stream))
	default:
		r.session.wrote(ans.Sequence)
		r.session.last = ans.Sequence
		return ans.Sequence, true
	}
	return 0, false
}

// single stores one message and returns where it lies; 0: it was refused for what is in it, or the run has failed.
func (r *fencedRun) single(ctx context.Context, i int) uint64 {
	denied := r.nc.LastError()
	ans := r.answers.Exchange(ctx, func(_, reply string) error {
		w := r.writers.Get()
		defer r.writers.Put(w)
		msg := w.Message(r.batch.Messages[i], r.bodies[i])
		w.Set(nats.ExpectedLastSubjSeqHdr, strconv.FormatUint(r.session.last, 10))
		w.Set(jetstream.ExpectedLastSubjSeqSubjHeader, r.subject)
		w.Set(jetstream.ExpectedStreamHeader, r.cfg.Stream)
		msg.Reply = reply
		return r.nc.PublishMsg(msg)
	})
	code := wire.Refusal(ans.Err)
	switch {
	case ans.Err == nil && ans.Stream == r.cfg.Stream:
		return ans.Sequence
	case ans.Err == nil:
		r.fail(r.foreign(r.subject, ans.Stream))
	case wire.OfMessage(code) || code == wire.CodeStreamFull && perSubject(ans.Err):
		if !r.unfit(ctx) { // then it is the message's fault
			r.refuse(i, delivery.Outcome{Kind: orRetry(wire.Classify(ans.Err).Kind), Err: fmt.Errorf("refused by stream %s: %w", r.cfg.Stream, ans.Err)})
		}
	default:
		r.lost(denied, ans.Err)
	}
	return 0
}

// lost ends the run: a message may be stored that no record names; a takeover finds it.
func (r *fencedRun) lost(denied, err error) {
	if wire.IsConfiguration(err) {
		r.fail(fmt.Errorf("%w: %w", delivery.ErrConfiguration, err))
		return
	}
	r.fail(fmt.Errorf("%w: %w: %w", delivery.ErrUnknown, delivery.ErrOutage, cmp.Or(r.denied(denied), err)))
}

// stored cuts an atomic batch to its stored messages, and returns the end's position. A server that comes to a limit stores the first
// messages alone: then another message lies in the next one's place. An empty place means that a message was removed.
func (f *Fenced) stored(ctx context.Context, p part) (part, uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, f.cfg.AckTimeout)
	defer cancel()
	named := p.messages()
	end := named[len(named)-1].StreamSequence
	m, err := f.api.Next(ctx, ">", end)
	p.Batch = false
	if err != nil || m.Sequence == end && is(named[len(named)-1], streams.EntryOf("", m.Header, end)) { // the last one proves all
		return p, end, err
	}
	other, behind := end+1, m.Sequence > end // the first position of another message: each behind it is another's, too
	for low, high := p.First, end; low <= high; {
		middle := low + (high-low)/2
		m, err := f.api.Next(ctx, ">", middle)
		if err != nil {
			return p, 0, err
		}
		within := m.Sequence > 0 && m.Sequence <= end
		if within && is(named[m.Sequence-p.First], streams.EntryOf("", m.Header, m.Sequence)) {
			low = m.Sequence + 1
			continue
		}
		if within {
			other, behind = m.Sequence, true
		}
		high = middle - 1
	}
	if !behind { // an old leader: the caller's record lies there
		return p, 0, fmt.Errorf("%w: stream %s gives nothing behind a batch at %d, and must have a record", delivery.ErrOutage, f.cfg.Stream, p.First)
	}
	return p.upTo(other - p.First), other - 1, nil
}

// is compares a stored message with one that a record names.
func is(d delivery.Delivered, m gaps.StoredMessage) bool {
	return d.Sequence == m.Sequence && d.Identity == delivery.IdentityOf(m.EventID) && d.Generation+d.Era == m.Generation
}

// walk finds a part's stored messages between its announcement and a later record of the partition.
func (f *Fenced) walk(ctx context.Context, id partition.ID, p part, before uint64) (found []part, err error) {
	defer f.walks.begin()()
	announced := p.messages()
	for at := p.After + 1; at < before && len(found) < len(announced); at += chunkOfWalk - at%chunkOfWalk {
		read, err := f.readChunk(ctx, at, before)
		if err != nil {
			return nil, err
		}
		for _, m := range read {
			if m.Position <= p.After || m.Partition != id || !slices.ContainsFunc(announced, func(d delivery.Delivered) bool { return is(d, m) }) {
				continue
			}
			one := part{
				First: m.Position, Sequences: []int64{m.Sequence}, Era: p.Era,
				Identities: binary.BigEndian.AppendUint64(nil, delivery.IdentityOf(m.EventID)),
			}
			if m.Generation > p.Era {
				one.Generations = []int{m.Generation - p.Era}
			}
			found = append(found, one)
		}
	}
	return found, nil
}

// chunkOfWalk bounds the positions that are read at once.
const chunkOfWalk = 64

// walks of several takeovers go through the same messages at once: each chunk is read for all of them.
type walks struct {
	sharing singleflight.Group
	mu      sync.Mutex
	going   int
	read    map[uint64][]gaps.StoredMessage // by the first position
}

// begin counts a walk until it ends. The last one's end drops the chunks.
func (w *walks) begin() (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.going++; w.going == 1 {
		w.read = map[uint64][]gaps.StoredMessage{}
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.going--; w.going == 0 {
			w.read = nil
		}
	}
}

// readChunk reads the messages around a position, those below another one.
func (f *Fenced) readChunk(ctx context.Context, at, before uint64) ([]gaps.StoredMessage, error) {
	first := at - at%chunkOfWalk
	if first+chunkOfWalk > before { // later messages may not be there yet
		return f.readPositions(ctx, at, before)
	}
	f.walks.mu.Lock()
	read, is := f.walks.read[first]
	f.walks.mu.Unlock()
	if is {
		return read, nil
	}
	shared, err, _ := f.walks.sharing.Do(strconv.FormatUint(first, 10), func() (any, error) {
		return f.readPositions(context.WithoutCancel(ctx), max(first, 1), first+chunkOfWalk)
	})
	if err != nil {
		return nil, err
	}
	read, _ = shared.([]gaps.StoredMessage)
	f.walks.mu.Lock()
	defer f.walks.mu.Unlock()
	f.walks.read[first] = read
	return read, nil
}

// readPositions reads the message at each position, in their order.
func (f *Fenced) readPositions(ctx context.Context, from, before uint64) ([]gaps.StoredMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, f.cfg.AckTimeout)
	defer cancel()
	read := make([]gaps.StoredMessage, before-from)
	asking, ask := errgroup.WithContext(ctx)
	for i := range read {
		asking.Go(func() error {
			m, err := f.api.At(ask, from+uint64(i))
			read[i] = streams.EntryOf("", m.Header, m.Sequence)
			return err
		})
	}
	return read, asking.Wait()
}
