package delivery

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

const (
	// NamesKept bounds the topics, and the types, that metrics tell apart.
	NamesKept = 50
	// OtherName stands for all that are not told apart.
	OtherName = "other"
	// longestLabel is the longest name that metrics show, in bytes.
	longestLabel = 128
)

// Names makes labels of names that producers choose: the first NamesKept are told apart for as long as the process lives, whatever
// comes later is OtherName. So are names above 128 bytes, and those of other than printable characters. Its zero value is ready.
type Names struct {
	mu   sync.Mutex
	kept []string
	is   map[string]bool
}

// Label returns the name itself, or OtherName.
func (n *Names) Label(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.is[name]:
		return name
	case len(n.kept) == NamesKept || name == OtherName || !showable(name):
		return OtherName
	}
	if n.is == nil {
		n.is = map[string]bool{}
	}
	name = strings.Clone(name) // it may lie in the memory of a whole batch
	n.is[name], n.kept = true, append(n.kept, name)
	return name
}

// Kept are the names that are told apart, in the order in which they came.
func (n *Names) Kept() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.kept[:len(n.kept):len(n.kept)]
}

func showable(name string) bool {
	return name != "" && len(name) <= longestLabel && utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}
