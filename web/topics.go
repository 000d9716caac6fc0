package web

import "time"

// Topics is the page of what topics and types of events do.
type Topics struct {
	Shell
	// Trouble, when set, says why what waits and what is dead is old.
	Trouble         string
	ByTopic, ByType []NameRow
	// Flowing says that rates are known, from Sampled events of the last Span.
	Flowing bool
	Sampled int64
	Span    time.Duration
	// Counted says that what waits and what is dead was counted.
	Counted bool
}

// NameRow is one topic, or one type.
type NameRow struct {
	Name string
	// Other says that it stands for all that are not told apart.
	Other bool
	// Rate is what is published a second, Share how much of the largest rate that is, in percent; empty: not known.
	Rate  string
	Share int
	// Counted says that Dead and Oldest are known. Oldest is how long the oldest pending event has waited; 0: none was found. Unknown says
	// then that not all were looked at.
	Counted bool
	Dead    int64
	Oldest  time.Duration
	Unknown bool
	// List and Causes are addresses of its messages and of what is dead of it; empty: none.
	List, Causes string
}
