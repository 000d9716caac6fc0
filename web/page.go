package web

import "time"

// Shell is the frame of every page's content.
type Shell struct {
	// Title names the page in the browser's tab.
	Title string
	// Root leads from the page to the monitor's root, as a relative address
	// that ends in a slash: "./" for the root itself, "../" one level down.
	Root string
	// Environment is shown as a banner, for instance "production". Empty hides it.
	Environment string
	// Version is the version of the process that serves the page.
	Version string
	// ReadOnly says that this visitor may look and not act.
	ReadOnly bool
	// Section is the entry of the navigation that the page belongs to:
	// "monitor", "topics", "messages", "replays" or "audit". Empty hides the navigation.
	Section string
	// Operable says that the monitor can read messages and the audit.
	Operable bool
	// MayAct says that this visitor may act, and that the monitor can.
	MayAct bool
	// Every is the interval of the page's updates, in seconds; 0: none.
	Every int
	// Reload is the interval of updates without script, in seconds; 0 where a form would lose its text.
	Reload int
	// Flash reports the last action.
	Flash *Flash
}

// Flash is a notice above the page.
type Flash struct {
	Text string
	// Tone is "good", "warn" or "bad".
	Tone string
}

// ErrorPage replaces a page that cannot be shown.
type ErrorPage struct {
	Shell
	// Status is the HTTP status code.
	Status int
	// Heading is one short phrase; Detail names the cure.
	Heading, Detail string
}

// Monitor is the first page.
type Monitor struct {
	Shell
	// At is the snapshot's time by the database clock.
	At time.Time
	// Age is the time since the snapshot.
	Age time.Duration
	// CountsAge is the age of the counts at At.
	CountsAge time.Duration
	// Trouble, when set, says why the numbers are old.
	Trouble string
	// Obstacles are the causes for which events wait, by kind.
	Obstacles []Obstacle
	// NotReady says why the serving process is not ready; empty: it is.
	NotReady string
	// Stall, when set, says that the order waits for open transactions.
	Stall *Stall
	// Tiles is the summary, in reading order.
	Tiles []Tile
	// Chart is the throughput of the last hour.
	Chart Chart
	// Seconds is the throughput of the last five minutes; nil: unknown.
	Seconds *SecondsChart
	// Ownership lists the last changes of ownership.
	Ownership Ownership
	// Workers are sorted by id.
	Workers []Worker
	// Partitions are sorted by number; Resizable says that a page can change their number.
	Partitions []Partition
	Resizable  bool
	// Unowned counts the partitions without a live lease.
	Unowned int
	// AsTable shows the partitions as a table in place of the grid.
	AsTable bool
}

// OldCounts reports whether the page should show the counts' age.
func (m Monitor) OldCounts() bool {
	const worthAWord = 3 * time.Second
	return m.CountsAge >= worthAWord
}

// Many reports whether the cells of the grid have to be small.
func (m Monitor) Many() bool {
	const many = 256
	return len(m.Partitions) > many
}

// Stall is the notice that events wait because of open transactions.
type Stall struct {
	// Count counts the transactions; Names describes them.
	Count int
	Names string
	// Waiting is the time for which events have waited.
	Waiting time.Duration
	// Rollbacks is the SQL that ends the transactions.
	Rollbacks []string
}

// Tile is one number of the summary.
type Tile struct {
	// Key is the tile's stable id in the document.
	Key string
	// Label, Value and Note are shown as they are.
	Label, Value, Note string
	// Tone colours the tile: "", "good", "warn" or "bad".
	Tone string
}

// Worker is one row of the workers table.
type Worker struct {
	// ID is the full id; Short its tail, since ids of one start-up share their head.
	ID, Short string
	Hostname  string
	PID       int
	Version   string
	// State is "active", "draining" or "stale".
	State   string
	Started time.Time
	// Uptime is counted by the database clock.
	Uptime time.Duration
	// Left is the heartbeat's remaining life; negative when it ran out.
	Left time.Duration
	// Age is the time since the last heartbeat, if HasAge.
	Age    time.Duration
	HasAge bool
	// Owned and Desired count partitions.
	Owned, Desired int
	// Hue numbers the owner's colour, 0 to Hues-1.
	Hue int
	// DrainAsked is the time of an operator's request to drain; zero: none.
	DrainAsked Moment
	// Drainable says that the worker can be asked to drain.
	Drainable bool
}

// Partition is one cell of the grid.
type Partition struct {
	Number int
	// Owner is the full id of the lease's holder, Short its tail, and Host
	// its host name where the worker is still known. Empty when unowned.
	Owner, Short, Host string
	// Owned says that the partition has a live lease.
	Owned bool
	// Hue numbers the owner's colour.
	Hue   int
	Epoch int64
	// Left is the lease's remaining life; negative when it ran out.
	Left      time.Duration
	Delivered int64
	Paused    bool
	PausedAt  time.Time
	// Pending, Failed, Blocked, Dead and Scheduled count rows.
	Pending, Failed, Blocked, Dead, Scheduled int64
	// BlockedStreams is the number of streams that the blocked rows belong to.
	BlockedStreams int64
	// OldestPending is the age of the oldest pending row.
	OldestPending time.Duration
	// Why names the causes for which rows wait; Stalled says that open transactions are one.
	Why     []string
	Stalled bool
}

// Troubled reports whether the cell deserves attention.
func (p Partition) Troubled() bool {
	return !p.Owned || p.Stalled || p.Dead > 0 || p.Blocked > 0
}

// Resize is the page of the number of partitions, and of the progress of its change.
type Resize struct {
	Shell
	// Partitions is their number, Since the time of its last change; zero: unchanged.
	Partitions int
	Since      Moment
	// Resizing says that somebody is changing it, and Returned counts the partitions that workers have released for that.
	Resizing bool
	Returned int
	// Last is the last change requested here; nil: none.
	Last *Resized
	// Given is the form's value, Problem its fault.
	Given, Problem string
}

// Percent returns the percentage of released partitions.
func (r Resize) Percent() int { return 100 * r.Returned / max(1, r.Partitions) }

// Resized is a change of the number of partitions.
type Resized struct {
	// State is "running", "done" or "failed"; Error holds the failure, with its cure.
	State, Error    string
	From, To, Moved int
	Actor, Reason   string
	Ended           Moment
}

// ResizeConfirm asks before the number of partitions is changed.
type ResizeConfirm struct {
	Shell
	// From is the present number, To the requested one, Moved the number of pending rows that would move.
	From, To, Moved int
	Reason, Problem string
}
