package arena

import "strings"

// The sizes of a piece, in bytes.
const (
	textPiece = 8 << 10
	bodyPiece = 64 << 10
)

// Texts keeps strings. The zero value is ready.
type Texts struct {
	piece strings.Builder
	last  string
}

// Keep returns raw as a string.
func (t *Texts) Keep(raw []byte) string {
	if string(raw) == t.last { // as names of kinds mostly are
		return t.last
	}
	if len(raw) > textPiece/4 {
		t.last = string(raw)
		return t.last
	}
	if t.piece.Cap()-t.piece.Len() < len(raw) {
		t.piece = strings.Builder{}
		t.piece.Grow(textPiece)
	}
	start := t.piece.Len()
	t.piece.Write(raw)
	t.last = t.piece.String()[start:]
	return t.last
}

// Bodies keeps bytes. The zero value is ready.
type Bodies struct{ piece []byte }

// Keep returns a copy of raw; nil for nil. Appending to it does not reach others.
func (b *Bodies) Keep(raw []byte) []byte {
	if raw == nil {
		return nil
	}
	if len(raw) > bodyPiece/4 {
		return append(make([]byte, 0, len(raw)), raw...)
	}
	if cap(b.piece)-len(b.piece) < len(raw) {
		b.piece = make([]byte, 0, bodyPiece)
	}
	start := len(b.piece)
	b.piece = append(b.piece, raw...)
	return b.piece[start:len(b.piece):len(b.piece)]
}
