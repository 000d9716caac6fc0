package rewrite

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
)

// Redact removes the pointers' values, and returns the new document. The payload itself stays as it is. An empty payload has nothing to
// redact; another one that is no JSON is refused with ErrNotJSON.
func Redact(payload []byte, pointers []JSONPointer) ([]byte, error) {
	if len(pointers) == 0 || len(payload) == 0 {
		return payload, nil
	}
	if !json.Valid(payload) {
		return nil, ErrNotJSON
	}
	e := editor{in: payload, out: make([]byte, 0, len(payload))}
	e.space()
	e.value(pointers)
	e.space()
	return e.out, nil
}

// editor copies a valid document from in to out, without the removed values.
type editor struct {
	in  []byte
	at  int // all before it was copied, or left out
	out []byte
}

func (e *editor) copyTo(end int) {
	e.out = append(e.out, e.in[e.at:end]...)
	e.at = end
}

func (e *editor) space() { e.copyTo(e.pastSpace(e.at)) }

func (e *editor) pastSpace(at int) int {
	for at < len(e.in) && (e.in[at] == ' ' || e.in[at] == '\t' || e.in[at] == '\n' || e.in[at] == '\r') {
		at++
	}
	return at
}

// value copies the value at the position, without the pointers' values.
func (e *editor) value(pointers []JSONPointer) {
	switch c := e.in[e.at]; {
	case len(pointers) == 0:
		e.copyTo(e.pastValue(e.at))
	case c == '{':
		e.object(pointers)
	case c == '[':
		e.array(pointers)
	default:
		e.copyTo(e.pastValue(e.at)) // nothing lies in it
	}
}

// object copies an object. A member reaches from the brace or comma before it to the comma or brace behind it, spaces included.
func (e *editor) object(pointers []JSONPointer) {
	e.copyTo(e.at + 1)
	for kept := 0; ; {
		begin := e.at
		key := e.pastSpace(begin)
		if e.in[key] == '}' { // only when it is empty
			e.copyTo(key + 1)
			return
		}
		past := e.pastString(key)
		start := e.pastSpace(e.pastSpace(past) + 1) // of the value, behind the colon
		rest, hit := below(pointers, text(e.in[key:past]), false)
		if hit {
			e.at = e.pastSpace(e.pastValue(start))
		} else {
			if kept++; kept > 1 {
				e.out = append(e.out, ',')
			}
			e.copyTo(start)
			e.value(rest)
			e.space()
		}
		end := e.in[e.at]
		e.at++
		if end == '}' {
			e.out = append(e.out, end)
			return
		}
	}
}

func (e *editor) array(pointers []JSONPointer) {
	if !slices.ContainsFunc(pointers, JSONPointer.element) {
		e.copyTo(e.pastValue(e.at))
		return
	}
	e.copyTo(e.at + 1)
	e.space()
	if e.in[e.at] == ']' {
		e.copyTo(e.at + 1)
		return
	}
	for i := 0; ; i++ {
		e.space()
		rest, hit := below(pointers, strconv.Itoa(i), true)
		if hit { // the others keep their places
			e.out = append(e.out, "null"...)
			e.at = e.pastValue(e.at)
		} else {
			e.value(rest)
		}
		e.space()
		end := e.in[e.at]
		e.copyTo(e.at + 1)
		if end == ']' {
			return
		}
	}
}

// pastValue returns the position behind the value that begins there.
func (e *editor) pastValue(at int) int {
	switch e.in[at] {
	case '"':
		return e.pastString(at)
	case '{', '[':
		depth := 0
		for {
			switch e.in[at] {
			case '"':
				at = e.pastString(at)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			if at++; depth == 0 {
				return at
			}
		}
	}
	for at < len(e.in) && bytes.IndexByte([]byte(",]} \t\r\n"), e.in[at]) < 0 {
		at++
	}
	return at
}

// pastString returns the position behind the string whose first quote is there.
func (e *editor) pastString(at int) int {
	for at++; e.in[at] != '"'; at++ {
		if e.in[at] == '\\' {
			at++
		}
	}
	return at + 1
}

// text decodes a string literal.
func text(literal []byte) string {
	if bytes.IndexByte(literal, '\\') < 0 {
		return string(literal[1 : len(literal)-1])
	}
	var s string
	if err := json.Unmarshal(literal, &s); err != nil {
		panic("string of a valid document: " + err.Error())
	}
	return s
}
