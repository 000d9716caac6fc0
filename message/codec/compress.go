package codec

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// Compressor compresses bodies above a size. A nil one compresses nothing. It may be used by many goroutines at once.
type Compressor struct {
	encoding Encoding
	above    int
	zstd     *zstd.Encoder
	gzip     sync.Pool // of *gzip.Writer
}

// zstdWindow is the largest window that a zstd decoder has to keep, in bytes; every decoder takes it. The compressed bytes depend on it.
const zstdWindow = 8 << 20

// NewCompressor returns a compressor for bodies longer than above bytes, 0 or more. An encoding that is not known is refused with
// ErrEncoding.
func NewCompressor(encoding Encoding, above int) (*Compressor, error) {
	if _, err := Parse(string(encoding)); err != nil {
		return nil, err
	}
	if above < 0 {
		return nil, fmt.Errorf("compress above %d bytes: must not be negative", above)
	}
	c := &Compressor{encoding: encoding, above: above}
	switch encoding {
	case Zstd:
		var err error
		if c.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithWindowSize(zstdWindow)); err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
	case Gzip:
		c.gzip.New = func() any { return gzip.NewWriter(nil) }
	case S2:
	}
	return c, nil
}

// Encoding returns the encoding of Compress; "" for a nil compressor.
func (c *Compressor) Encoding() Encoding {
	if c == nil {
		return ""
	}
	return c.encoding
}

// Compress returns the body compressed, or the body itself and false where it is not above the size or would not become shorter. It
// never changes its argument.
func (c *Compressor) Compress(body []byte) (out []byte, compressed bool) {
	if c == nil || len(body) <= c.above || len(body) == 0 {
		return body, false
	}
	switch c.encoding {
	case Zstd:
		out = c.zstd.EncodeAll(body, make([]byte, 0, room(len(body))))
	case S2:
		if n := s2.MaxEncodedLen(len(body)); n < 0 {
			return body, false // beyond what a block can hold
		}
		out = s2.Encode(nil, body)
	case Gzip:
		out = c.gzipped(body)
	}
	if len(out) >= len(body) {
		return body, false
	}
	// The result is kept until its acknowledgement: it should not hold more memory than it needs.
	if cap(out) > len(out)+len(out)/2+1024 {
		out = bytes.Clone(out)
	}
	return out, true
}

// room returns the buffer's capacity for a result. Above 1 MiB it is ample: growing holds the old and the new buffer.
func room(size int) int {
	const large = 1 << 20
	if size > large {
		return size + size/64
	}
	return size/4 + 64
}

func (c *Compressor) gzipped(body []byte) []byte {
	w, _ := c.gzip.Get().(*gzip.Writer)
	defer c.gzip.Put(w)
	buffer := bytes.NewBuffer(make([]byte, 0, room(len(body))))
	w.Reset(buffer) // no name, no time: the header is the same for all
	if _, err := w.Write(body); err != nil {
		panic("gzip into memory: " + err.Error())
	}
	if err := w.Close(); err != nil {
		panic("gzip into memory: " + err.Error())
	}
	w.Reset(nil)
	return buffer.Bytes()
}
