package measure

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/partition"
)

// topic of all events.
const topic = "default"

// dataset makes endless events of the lines of a file: event i is always the same one. Each pass over the file has
// streams of its own.
type dataset struct {
	lines   []line
	payload int // bytes of every payload
}

type line struct {
	Stream   string          `json:"stream"`
	Type     string          `json:"type"`
	Occurred time.Time       `json:"occurred_at"`
	Payload  json.RawMessage `json:"payload"`

	version int64
}

// event is a generated event.
type event struct {
	id       uuid.UUID
	stream   string
	kind     string
	version  int64
	occurred time.Time
	payload  []byte
}

func readDataset(name string, payload int) (*dataset, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	defer file.Close() //nolint:errcheck // it is only read
	buffered := bufio.NewReaderSize(file, 1<<20)
	var from io.Reader = buffered
	if magic, _ := buffered.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		if from, err = gzip.NewReader(buffered); err != nil {
			return nil, fmt.Errorf("data: %s: %w", name, err)
		}
	}
	d := &dataset{payload: payload}
	versions := map[string]int64{}
	decoder := json.NewDecoder(from)
	for {
		var l line
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("data: %s: line %d: %w", name, len(d.lines)+1, err)
		}
		if l.Stream == "" || l.Type == "" {
			return nil, fmt.Errorf("data: %s: line %d: stream and type are required", name, len(d.lines)+1)
		}
		versions[l.Stream]++
		l.version = versions[l.Stream]
		d.lines = append(d.lines, l)
	}
	if len(d.lines) == 0 {
		return nil, fmt.Errorf("data: %s holds no events", name)
	}
	return d, nil
}

// at makes event i, from 0. Its sequence in a seeded database is i+1.
func (d *dataset) at(i int) event {
	l := &d.lines[i%len(d.lines)]
	e := event{id: eventID(i), stream: l.Stream, kind: l.Type, version: l.version, occurred: l.Occurred, payload: d.body(l, i)}
	if pass := i / len(d.lines); pass > 0 {
		e.stream += "#" + strconv.Itoa(pass)
	}
	return e
}

// stream returns the stream of event i alone.
func (d *dataset) stream(i int) string {
	stream := d.lines[i%len(d.lines)].Stream
	if pass := i / len(d.lines); pass > 0 {
		stream += "#" + strconv.Itoa(pass)
	}
	return stream
}

// eventID ascends with i, as the ids of producers do.
func eventID(i int) uuid.UUID {
	var id uuid.UUID
	const firstMillisecond = 1_700_000_000_000
	binary.BigEndian.PutUint64(id[:8], uint64(firstMillisecond+i/1000)<<16|uint64(0x7000|i%1000)) // not negative
	binary.BigEndian.PutUint64(id[8:], 1<<63|xxhash.Sum64(id[:8])>>2)
	return id
}

// body is a JSON object of exactly d.payload bytes: the line's own, with a member more, or one that holds its beginning.
func (d *dataset) body(l *line, i int) []byte {
	const member = `,"pad":""}`
	body := make([]byte, 0, d.payload+64)
	own := bytes.TrimSpace(l.Payload)
	fill := d.payload - len(own) + 1 - len(member)
	if len(own) > 2 && own[0] == '{' && fill >= 0 {
		body = append(append(body, own[:len(own)-1]...), `,"pad":"`...)
		return append(padding(body, fill, uint64(i)), `"}`...) // not negative
	}
	body = append(body, `{"pad":"`...)
	return append(padding(body, d.payload-len(`{"pad":""}`), uint64(i)), `"}`...) // not negative
}

// padding appends n characters that do not compress.
func padding(body []byte, n int, seed uint64) []byte {
	var word [8]byte
	for n > 0 {
		seed = seed*6364136223846793005 + 1442695040888963407
		binary.LittleEndian.PutUint64(word[:], seed^seed>>29)
		var text [8]byte
		base64.RawURLEncoding.Encode(text[:], word[:6])
		k := min(n, len(text))
		body = append(body, text[:k]...)
		n -= k
	}
	return body
}

// entry returns the checker's entry of event i in an outbox of so many partitions. Where the database stores another
// text of the payload, hash is false.
func (d *dataset) entry(i int, partitions partition.Count, hash bool) ledger.Entry {
	e := d.at(i)
	entry := ledger.Entry{
		EventID: e.id, Stream: e.stream, Version: e.version, Sequence: int64(i + 1), Partition: partition.Of(e.stream, partitions),
	}
	if hash {
		entry.BodyHash = ledger.HashBody(e.payload)
	}
	return entry
}
