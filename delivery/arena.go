package delivery

import "strings"

// The sizes of the pieces of memory that rows are copied into, in bytes. What is
// larger than a quarter of one gets its own.
const (
	textPiece    = 8 << 10
	payloadPiece = 64 << 10
)

// texts copies the strings of many rows into few pieces of memory. A string that
// outlives its batch must be cloned, or it keeps its whole piece.
type texts struct {
	piece strings.Builder
	last  string
}

func (t *texts) keep(raw []byte) string {
	if string(raw) == t.last { // as topics and types mostly are
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

// payloads does the same with bytes.
type payloads struct{ piece []byte }

// keep returns a copy of raw that nothing can be appended to in place; nil for nil.
func (p *payloads) keep(raw []byte) []byte {
	if raw == nil {
		return nil
	}
	if len(raw) > payloadPiece/4 {
		return append(make([]byte, 0, len(raw)), raw...)
	}
	if cap(p.piece)-len(p.piece) < len(raw) {
		p.piece = make([]byte, 0, payloadPiece)
	}
	start := len(p.piece)
	p.piece = append(p.piece, raw...)
	return p.piece[start:len(p.piece):len(p.piece)]
}
