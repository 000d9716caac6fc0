package wire

import (
	"encoding/hex"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/internal/arena"
	"github.com/postrider/postrider/message"
)

// Writer makes one message after the other in the same memory, for one goroutine. A message is valid until the next call.
type Writer struct {
	build Builder
	msg   nats.Msg
	// values holds a header's value where its slice in msg.Header points; optional are the names to take away again.
	values   [mostHeaders][1]string
	used     int
	optional []string
	fixed    [len(fixedHeaders)]*string

	texts    arena.Texts
	scratch  []byte
	subjects map[subjectKey]string
}

// fixedHeaders are on every message, in the order of writer.fixed.
var fixedHeaders = [...]string{message.HeaderEventID, message.HeaderSequence, message.HeaderPartition, message.HeaderStream, message.HeaderStreamVersion, message.HeaderType}

const (
	// mostHeaders values have their place; more are allocated.
	mostHeaders = 40
	// mostSubjects bounds the remembered subjects.
	mostSubjects = 1000
)

// subjectKey determines a subject, but for the stream and the partition.
type subjectKey struct{ topic, kind, tenant string }

// WriterPool lends writers, each to one goroutine.
type WriterPool struct{ pool sync.Pool }

// NewWriterPool lends writers of that builder.
func NewWriterPool(b Builder) *WriterPool {
	return &WriterPool{pool: sync.Pool{New: func() any { return b.writer() }}}
}

// Get lends one until it is put back.
func (p *WriterPool) Get() *Writer {
	w, ok := p.pool.Get().(*Writer)
	if !ok {
		panic("writers lend writers")
	}
	return w
}

// Put takes one back, and drops its message.
func (p *WriterPool) Put(w *Writer) {
	w.msg.Data = nil
	p.pool.Put(w)
}

func (b Builder) writer() *Writer {
	w := &Writer{build: b, subjects: map[subjectKey]string{}}
	w.msg.Header = make(nats.Header, b.Headers.most())
	for i, name := range fixedHeaders {
		w.fixed[i] = w.place(name)
	}
	return w
}

// place gives a header its value's place.
func (w *Writer) place(name string) *string {
	if w.used == len(w.values) {
		list := []string{""}
		w.msg.Header[name] = list
		return &list[0]
	}
	slot := &w.values[w.used]
	w.used++
	w.msg.Header[name] = slot[:]
	return &slot[0]
}

// Set adds a header to the present message.
func (w *Writer) Set(name, value string) {
	if list := w.msg.Header[name]; len(list) == 1 {
		list[0] = value
		return
	}
	*w.place(name) = value
	w.optional = append(w.optional, name)
}

// Without removes headers that Set did not set.
func (w *Writer) Without(names ...string) {
	for _, name := range names {
		delete(w.msg.Header, name)
	}
}

// Message makes an event's message around its body, without a reply subject.
func (w *Writer) Message(m delivery.Message, b Content) *nats.Msg {
	w.Without(w.optional...)
	w.optional, w.used = w.optional[:0], len(fixedHeaders)
	w.msg.Subject, w.msg.Reply, w.msg.Data = w.subject(m), "", b.Data
	for i, value := range [...]string{
		w.uuid(m.Event.ID), w.number(m.Sequence), w.number(int64(m.Partition)), message.EncodeHeader(m.Stream),
		w.number(m.Event.StreamVersion), message.EncodeHeader(m.Event.Type),
	} {
		*w.fixed[i] = value
	}
	w.build.Headers.add(w, m)
	if w.build.attributes != nil {
		w.build.attributes.add(w, m)
	}
	if b.encoding != "" {
		w.Set(headerEncoding, b.encoding)
	}
	return &w.msg
}

// MessageID returns the event's UUID, with the generation behind it when a requeue or replay raised it.
func (w *Writer) MessageID(m delivery.Message) string {
	if m.Generation == 0 {
		return *w.fixed[0]
	}
	return *w.fixed[0] + ":" + strconv.Itoa(m.Generation)
}

// subject returns the message's subject, remembered where messages share it.
func (w *Writer) subject(m delivery.Message) string {
	if w.build.Subject.own {
		return w.build.Subject.Of(m)
	}
	key := subjectKey{m.Topic, m.Event.Type, m.Event.TenantID}
	if s, ok := w.subjects[key]; ok {
		return s
	}
	if len(w.subjects) == mostSubjects {
		clear(w.subjects)
	}
	s := w.build.Subject.Of(m)
	w.subjects[subjectKey{strings.Clone(key.topic), strings.Clone(key.kind), strings.Clone(key.tenant)}] = s
	return s
}

func (w *Writer) number(n int64) string {
	w.scratch = strconv.AppendInt(w.scratch[:0], n, 10)
	return w.texts.Keep(w.scratch)
}

func (w *Writer) uuid(id uuid.UUID) string {
	w.scratch = appendUUID(w.scratch[:0], id)
	return w.texts.Keep(w.scratch)
}

func (w *Writer) time(t time.Time) string {
	w.scratch = t.AppendFormat(w.scratch[:0], time.RFC3339Nano)
	return w.texts.Keep(w.scratch)
}

func appendUUID(to []byte, id uuid.UUID) []byte {
	for i, group := range [...][]byte{id[:4], id[4:6], id[6:8], id[8:10], id[10:]} {
		if i > 0 {
			to = append(to, '-')
		}
		to = hex.AppendEncode(to, group)
	}
	return to
}
