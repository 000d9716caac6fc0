package web

// Ownership is changes of ownership, the newest first.
type Ownership struct {
	Changes []OwnershipChange
	// Begins is the time of the oldest change that is kept; zero: there is none.
	Begins Moment
	// Unread says that they could not be read.
	Unread bool
	// All is the address of all of them, relative to the root.
	All string
}

// OwnershipChange is a change of ownership.
type OwnershipChange struct {
	ID int64
	At Moment
	// Kind is "taken", "moved", "taken over", "retaken", "released", "resizing",
	// "removed" or "solo".
	Kind string
	// From and To are nil for nobody.
	From, To *Owner
	// RanOut is when the lease of From ran out; zero: it did not.
	RanOut Moment
	// Count is how many partitions changed, Partitions names them: "0–3, 7".
	Count      int
	Partitions string
	// Epoch is that of the one partition that was asked for; 0: all were.
	Epoch int64
}

// Owner is a worker as the holder of partitions.
type Owner struct {
	ID, Short, Host string
	Hue             int
}

// OwnershipPage is a page of the history of ownership.
type OwnershipPage struct {
	Shell
	Ownership
	// Timeline draws it; nil: nothing can be drawn.
	Timeline *Timeline
	// Partition, Since and Until are the filter as it was given, Filtered that there
	// is one.
	Partition, Since, Until string
	Filtered                bool
	// Older is the address of the next page, Newest that of the first one where
	// this is another; empty: none.
	Older, Newest string
}
