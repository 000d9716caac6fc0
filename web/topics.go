package web

import "time"

// Topics is the page of the loads of topics and types.
type Topics struct {
	Shell
	// Trouble, when set, says why the counts are old.
	Trouble         string
	ByTopic, ByType []NameRow
	// Flowing says that rates are known, from a sample of Sampled events of the last Span.
	Flowing bool
	Sampled int64
	Span    time.Duration
	// Counted says that waiting and dead messages were counted.
	Counted bool
}

// NameRow is one topic, or one type.
type NameRow struct {
	Name string
	// Other says that this is the sum of all further names.
	Other bool
	// Rate is the number of events published a second, Share its percentage of the largest rate; empty: unknown.
	Rate  string
	Share int
	// Counted says that Dead and Oldest are known. Oldest is the wait of the oldest pending event; 0: none was found. Unknown then says that
	// not all were read.
	Counted bool
	Dead    int64
	Oldest  time.Duration
	Unknown bool
	// List and Causes are the addresses of its messages and of its dead ones; empty: none.
	List, Causes string
}
