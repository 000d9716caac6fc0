package web

import "time"

// Obstacle is one kind of cause for which events wait.
type Obstacle struct {
	// Key is the obstacle's stable id in the document.
	Key string
	// Title names the obstacle, Text its effect and cure.
	Title, Text string
	// Tone is "warn" or "bad".
	Tone string
	// Partitions are the first of the affected ones, More the number of further ones.
	Partitions []int
	More       int
	// Link is the address of the page to act on, relative to the root, LinkText its text; empty: none.
	Link, LinkText string
}

// Story is the page of one partition.
type Story struct {
	Shell
	Partition
	At      time.Time
	Age     time.Duration
	Trouble string
	// Until is the end of the lease; zero without one.
	Until Moment
	// PausedSince is the begin of a pause; zero: it is not paused.
	PausedSince Moment
	// Watermark describes the watermark.
	Watermark string
	// Told says that Heads and Batches are known, by an operator.
	Told    bool
	Heads   []Head
	Batches []Batch
	// Ownership lists its last changes of owner.
	Ownership Ownership
	// Previous and Next are the neighbours' numbers, negative at the ends.
	Previous, Next int
	// Reason is the form's text so far, Problem the fault of the request.
	Reason, Problem string
}

// Head is a failed or dead message, with the messages behind it.
type Head struct {
	Sequence int64
	Stream   string
	State    string
	Attempts int
	// Next is the time of the next attempt; zero: none by itself.
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
	// Gone says that the worker does not exist, or cannot be asked.
	Gone bool
	// Reason is the text so far, Problem the fault of the request.
	Reason, Problem string
}

// Audit is a page of the audit.
type Audit struct {
	Shell
	Rows []AuditRow
	// Older is the address of the next page, Newest that of the first one unless this is it; empty: none.
	Older, Newest string
}

// AuditRow is one act of an operator.
type AuditRow struct {
	ID     int64
	At     Moment
	Actor  string
	Action string
	Reason string
	// Count is the number of changed messages or partitions; 0: unknown.
	Count int64
	// Sequences and Partitions are the first changed ones, More the number of further ones of either.
	Sequences  []int64
	Partitions []int
	More       int
	Worker     string
	// Record is the whole entry as JSON, or its beginning where Cut is set.
	Record string
	Cut    bool
}

// After returns the parameter of the page of the audit that begins with this entry.
func (r AuditRow) After() int64 { return r.ID + 1 }
