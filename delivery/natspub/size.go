package natspub

import (
	"fmt"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/natspub/wire"
)

// A record has at most baseRecord bytes, headers included, plus eachRecord for each event that it names, or eachPlace where it names its
// position, too.
const (
	baseRecord = 768
	eachRecord = 48
	eachPlace  = 160
)

// roomForRecord counts the events, of so many bytes each, that a record may name within the limits of server and stream.
func (f *Fenced) roomForRecord(each int64) int {
	largest := f.nc.MaxPayload()
	if stream := int64(f.seen.most(f.cfg.MaxMessageSize)); stream > 0 && (largest <= 0 || stream < largest) {
		largest = stream
	}
	if largest <= 0 {
		return MaxBatchEvents
	}
	return int(min(MaxBatchEvents, max(1, (largest-baseRecord)/each)))
}

// checkRecord refuses a record that cannot be sent: the last one is copied as it is, whatever the limits were when it was written.
func (f *Fenced) checkRecord(msg *nats.Msg) error {
	size := wire.HeaderSize(msg.Header) + len(msg.Data)
	if err := wire.CheckSize(size, f.nc.MaxPayload(), f.seen.most(f.cfg.MaxMessageSize), f.cfg.Stream); err != nil {
		return fmt.Errorf("%w: the partition's last record on %s cannot be written again: %w; raise the limit to at least %d", wire.ErrStreamUnfit, msg.Subject, err, size)
	}
	return nil
}

// check compares a message of about that size with the limits: one that may exceed them is made, to know its size. It refuses headers
// that cannot be sent.
func (r *fencedRun) check(m delivery.Message, b wire.Content, about int) error {
	if err := r.build.Headers.Check(m.Event); err != nil {
		return err
	}
	limits := func(size int) error {
		return wire.CheckSize(size, r.nc.MaxPayload(), r.seen.most(r.cfg.MaxMessageSize), r.cfg.Stream)
	}
	if limits(about) == nil {
		return nil
	}
	r.tight = true
	w := r.writers.Get()
	defer r.writers.Put(w)
	more := batchHeaderSize
	if r.steps() {
		more = r.singleHeaderSize()
	}
	return limits(wire.HeaderSize(w.Message(m, b).Header) + len(b.Data) + more)
}

// batchHeaderSize is about the size of a batch's headers in a message, in bytes.
const batchHeaderSize = 100

// singleHeaderSize is about the size of the expectation of a message stored by itself, in bytes: more than a batch's headers.
func (r *fencedRun) singleHeaderSize() int {
	const names, sequence = len(jetstream.ExpectedLastSubjSeqHeader + jetstream.ExpectedLastSubjSeqSubjHeader + jetstream.ExpectedStreamHeader), 20
	return names + 3*len(": \r\n") + sequence + len(r.subject) + len(r.cfg.Stream)
}

// Capabilities implements delivery.Publisher.
func (f *Fenced) Capabilities() delivery.Capabilities {
	can := f.build.Capabilities(f.nc, f.seen.most(f.cfg.MaxMessageSize), f.cfg.Stream)
	can.Steps = f.steps()
	return can
}

// seen keeps the last known settings of a stream, which may change at any time.
type seen struct {
	largest atomic.Int64 // message, in bytes; 0: any
	keep    atomic.Bool  // records must say that they never expire
	batches atomic.Bool  // it takes atomic batches
	singles atomic.Int64 // messages of a partition that are stored one by one where it does
}

// of makes an extent of the server's answer about the stream, and notes its settings.
func (s *seen) of(info jetstream.StreamInfo, needs streams.Needs) delivery.Extent {
	unfit := needs.Unmet(info.Config)
	if unfit == nil { // a limit under which nothing is published fails no message
		s.largest.Store(int64(streams.LargestMessage(info.Config)))
	}
	s.keep.Store(info.Config.MaxAge > 0 && info.Config.AllowMsgTTL)
	return delivery.Extent{
		First: info.State.FirstSeq, Last: info.State.LastSeq, Created: info.Created, MaxAge: info.Config.MaxAge, Unfit: unfit,
	}
}

// most returns the largest message that the stream takes, at most than; 0: any.
func (s *seen) most(than int) int {
	largest := int(s.largest.Load())
	if than > 0 && (largest == 0 || than < largest) {
		return than
	}
	return largest
}
