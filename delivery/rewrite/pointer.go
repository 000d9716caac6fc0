package rewrite

import (
	"fmt"
	"strings"
)

// JSONPointer leads to values in a JSON document: its reference tokens, unescaped.
type JSONPointer []string

// each is the token that leads to every element of an array.
const each = "*"

// ParsePointer reads a JSON pointer. It must not be empty: a whole payload is not redacted.
func ParsePointer(text string) (JSONPointer, error) {
	if !strings.HasPrefix(text, "/") {
		return nil, fmt.Errorf("%w: pointer %q must begin with /, such as /customer/email", ErrRule, text)
	}
	var p JSONPointer
	for token := range strings.SplitSeq(text[1:], "/") {
		for i := range len(token) {
			if token[i] == '~' && (i+1 == len(token) || token[i+1] != '0' && token[i+1] != '1') {
				return nil, fmt.Errorf("%w: pointer %q: ~ must be written ~0 and / as ~1", ErrRule, text)
			}
		}
		p = append(p, strings.NewReplacer("~1", "/", "~0", "~").Replace(token))
	}
	return p, nil
}

// element reports whether the pointer may begin with an element of an array.
func (p JSONPointer) element() bool {
	return p[0] == each || p[0] != "" && p[0][0] >= '0' && p[0][0] <= '9'
}

// below returns the pointers beneath a member or element: the rest of those that begin with its name. hit reports that one ends there.
func below(pointers []JSONPointer, name string, element bool) (rest []JSONPointer, hit bool) {
	for _, p := range pointers {
		if p[0] != name && (!element || p[0] != each) {
			continue
		}
		if len(p) == 1 {
			return nil, true
		}
		rest = append(rest, p[1:])
	}
	return rest, false
}
