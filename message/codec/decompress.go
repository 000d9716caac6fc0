package codec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// Body returns the body of a message as its producer wrote it. A message without Content-Encoding is returned as it is. limit is the
// longest result in bytes; 0 or less means DefaultLimit.
func Body(header map[string][]string, body []byte, limit int64) ([]byte, error) {
	name := encodingOf(header)
	if name == "" {
		return body, nil
	}
	e, err := Parse(name)
	if err != nil {
		return nil, err
	}
	return Decompress(e, body, limit)
}

// encodingOf reads the header; other clients may change the case of its name.
func encodingOf(header map[string][]string) string {
	values := header[Header]
	if len(values) == 0 {
		for name, v := range header {
			if strings.EqualFold(name, Header) {
				values = v
				break
			}
		}
	}
	return strings.Join(values, ", ") // no relay writes several: such a name is not known
}

// Decompress takes the compression off. limit is the longest result in bytes; 0 or less means DefaultLimit.
func Decompress(e Encoding, body []byte, limit int64) ([]byte, error) {
	if limit <= 0 {
		limit = DefaultLimit
	}
	switch e {
	case Zstd:
		d, _ := decoders.Get().(*zstd.Decoder)
		defer func() {
			_ = d.Reset(nil) // lets go of the body
			decoders.Put(d)
		}()
		if err := d.Reset(bytes.NewReader(body)); err != nil {
			return nil, damaged(e, err)
		}
		return read(e, d, len(body), limit)
	case S2:
		return block(body, limit)
	case Gzip:
		r, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, damaged(e, err)
		}
		return read(e, r, len(body), limit)
	}
	_, err := Parse(string(e))
	return nil, err
}

// decoders are kept: making one costs more than a small body. With a concurrency of 1 they run no goroutines, so that a dropped
// one leaves nothing behind.
var decoders = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(2*zstdWindow))
	if err != nil {
		panic("zstd options: " + err.Error())
	}
	return d
}}

// read reads up to the limit; more is an error.
func read(e Encoding, from io.Reader, size int, limit int64) ([]byte, error) {
	if size == 0 {
		return nil, damaged(e, io.ErrUnexpectedEOF) // no bytes are no frame
	}
	out := bytes.NewBuffer(make([]byte, 0, min(int64(4*size), limit)+bytes.MinRead))
	n, err := out.ReadFrom(io.LimitReader(from, limit+1))
	switch {
	case n > limit:
		return nil, fmt.Errorf("%w: %s makes more than %d bytes of %d", ErrTooLarge, e, limit, size)
	case err != nil:
		return nil, damaged(e, err)
	}
	return out.Bytes(), nil
}

func block(body []byte, limit int64) ([]byte, error) {
	n, err := s2.DecodedLen(body)
	if err != nil {
		return nil, damaged(S2, err)
	}
	if int64(n) > limit {
		return nil, fmt.Errorf("%w: s2 makes %d bytes of %d, the limit is %d", ErrTooLarge, n, len(body), limit)
	}
	out, err := s2.Decode(nil, body)
	if err != nil {
		return nil, damaged(S2, err)
	}
	return out, nil
}

func damaged(e Encoding, err error) error {
	if errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		return fmt.Errorf("%w: %s: %w", ErrTooLarge, e, err)
	}
	return fmt.Errorf("%w: %s: %w", ErrCorrupt, e, err)
}
