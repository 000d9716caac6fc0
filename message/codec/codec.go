package codec

import (
	"errors"
	"fmt"
)

// Header is the name of the header that names the encoding.
const Header = "Content-Encoding"

// Encoding is a way to compress, by its name in the header.
type Encoding string

// The encodings.
const (
	Zstd Encoding = "zstd"
	S2   Encoding = "s2"
	Gzip Encoding = "gzip"
)

// Lengths of bodies, in bytes.
const (
	// DefaultLimit is the longest body that Body and Decompress make when they are given no limit: as long as a payload
	// may be in an outbox as it was made.
	DefaultLimit = 8 << 20
	// MaxLimit is as long as an outbox can be told to let payloads be.
	MaxLimit = 64 << 20
)

// The errors.
var (
	ErrEncoding = errors.New("unknown content encoding")
	ErrCorrupt  = errors.New("compressed body is damaged")
	ErrTooLarge = errors.New("decompressed body is too large")
)

// Parse returns the encoding of that name: zstd, s2 or gzip. Other names are refused with ErrEncoding.
func Parse(name string) (Encoding, error) {
	switch e := Encoding(name); e {
	case Zstd, S2, Gzip:
		return e, nil
	}
	return "", fmt.Errorf("%w: %q; known are zstd, s2 and gzip", ErrEncoding, clip(name))
}

// clip keeps hostile names from flooding an error text.
func clip(s string) string {
	const longest = 64
	if len(s) > longest {
		return s[:longest] + "…"
	}
	return s
}
