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
	// DefaultLimit is the longest body that Body and Decompress make without a limit: the default bound of an outbox's payloads.
	DefaultLimit = 8 << 20
	// MaxLimit is the largest bound of payloads that an outbox takes.
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
