package web

import "time"

// Obstacle is one kind of thing that keeps events waiting.
type Obstacle struct {
	// Key is its stable id in the document.
	Key string
	// Title names it, Text says what waits and what to do.
	Title, Text string
	// Tone is "warn" or "bad".
	Tone string
	// Partitions are the first of those where it was met, More how many further ones there are.
	Partitions []int
	More       int
	// Link is an address relative to the root where to act on it, LinkText what it is called; empty: none.
	Link, LinkText string
}

// Story is the page of one partition.
type Story struct {
	Shell
	Partition
	At      time.Time
	Age     time.Duration
	Trouble string
	// Until is when the lease runs out; zero without one.
	Until Moment
	// PausedSince is when it was paused; zero: it is not.
	PausedSince Moment
	// Watermark says how far the order is decided, in words.
	Watermark string
	// Told says that Heads and Batches are known: there is an operator.
	Told    bool
	Heads   []Head
	Batches []Batch
	// Ownership is its last changes of owner.
	Ownership Ownership
	// Previous and Next are the neighbours' numbers, negative at the ends.
	Previous, Next int
	// Reason is what was written into the form so far, Problem why nothing was done.
	Reason, Problem string
}

// Head is a message that failed or died, and what waits behind it.
type Head struct {
	Sequence int64
	Stream   string
	State    string
	Attempts int
	// Next is when it is tried again; zero: never by itself.
	Next   Moment
	Dead   Moment
	Behind int64
	Capped bool
	Error  string
}

// Batch is one delivery of a partition's messages.
type Batch struct {
	First, Last        int64
	FirstInStream      int64
	LastInStream       int64
	Epoch              int64
	At                 Moment
	Published, Skipped int
}

// Drain asks before a worker is drained.
type Drain struct {
	Shell
	Worker
	// Others counts the active workers that would take its partitions over.
	Others int
	// Gone says that there is no such worker, or that it cannot be asked.
	Gone bool
	// Reason is what was written so far, Problem why nothing was done.
	Reason, Problem string
}

// Audit is a page of the audit.
type Audit struct {
	Shell
	Rows []AuditRow
	// Older is the address of the next page, Newest that of the first one where this is another; empty: none.
	Older, Newest string
}

// AuditRow is what one operator did.
type AuditRow struct {
	ID     int64
	At     Moment
	Actor  string
	Action string
	Reason string
	// Count is how many messages or partitions it changed; 0: not said.
	Count int64
	// Sequences and Partitions are the first of those it changed, More how many further ones of either there are.
	Sequences  []int64
	Partitions []int
	More       int
	Worker     string
	// Record is the whole entry as JSON, Cut says that it is only its beginning.
	Record string
	Cut    bool
}

// After is where a page of the audit begins whose first entry is this one.
func (r AuditRow) After() int64 { return r.ID + 1 }
