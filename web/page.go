package web

import "time"

// Shell is what every page shows around its content.
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
	// Operable says that messages and the audit can be looked at.
	Operable bool
	// MayAct says that this visitor may act, and that something can.
	MayAct bool
	// Every is how many seconds lie between two updates of the page; 0: it stays as it is.
	Every int
	// Reload is how many seconds lie between two updates where no script runs; 0 where a form would lose what was typed.
	Reload int
	// Flash tells what the last action did.
	Flash *Flash
}

// Flash is a notice above the page.
type Flash struct {
	Text string
	// Tone is "good", "warn" or "bad".
	Tone string
}

// ErrorPage is the page shown in place of one that cannot be.
type ErrorPage struct {
	Shell
	// Status is the HTTP status code.
	Status int
	// Heading is one short phrase; Detail says what to do.
	Heading, Detail string
}

// Monitor is the first page.
type Monitor struct {
	Shell
	// At is the moment of the snapshot by the database clock.
	At time.Time
	// Age is how long ago the snapshot was taken.
	Age time.Duration
	// CountsAge is how much older than At the counts are.
	CountsAge time.Duration
	// Trouble, when set, says why the numbers are old.
	Trouble string
	// Obstacles is what keeps events waiting, by its kind.
	Obstacles []Obstacle
	// NotReady is why the process that serves the page is not ready; empty: it is.
	NotReady string
	// Stall, when set, says that the order waits for open transactions.
	Stall *Stall
	// Tiles is the summary, in reading order.
	Tiles []Tile
	// Chart is the throughput of the last hour.
	Chart Chart
	// Seconds is the throughput of the last five minutes; nil where it is not known.
	Seconds *SecondsChart
	// Ownership is the last changes of ownership.
	Ownership Ownership
	// Workers are sorted by id.
	Workers []Worker
	// Partitions are sorted by number; Resizable says that there is a page to change how many.
	Partitions []Partition
	Resizable  bool
	// Unowned counts the partitions that no live lease covers.
	Unowned int
	// AsTable shows the partitions as a table in place of the grid.
	AsTable bool
}

// OldCounts says whether the counts are old enough to be worth a word.
func (m Monitor) OldCounts() bool {
	const worthAWord = 3 * time.Second
	return m.CountsAge >= worthAWord
}

// Many says that the cells of the grid have to be small.
func (m Monitor) Many() bool {
	const many = 256
	return len(m.Partitions) > many
}

// Stall is the notice that events wait because of open transactions.
type Stall struct {
	// Count counts the transactions; Names describes them.
	Count int
	Names string
	// Waiting is how long they have been waited for.
	Waiting time.Duration
	// Rollbacks is the SQL that ends them.
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
	// Age is the time since the last heartbeat; meaningful when HasAge.
	Age    time.Duration
	HasAge bool
	// Owned and Desired count partitions.
	Owned, Desired int
	// Hue numbers the owner's colour, 0 to Hues-1.
	Hue int
	// DrainAsked is when an operator asked it to drain; zero: nobody did.
	DrainAsked Moment
	// Drainable says that it can be asked.
	Drainable bool
}

// Partition is one cell of the grid.
type Partition struct {
	Number int
	// Owner is the full id of the lease's holder, Short its tail, and Host
	// its host name where the worker is still known. Empty when unowned.
	Owner, Short, Host string
	// Owned says that a lease is held and has not run out.
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
	// OldestPending is the age of the oldest row that waits.
	OldestPending time.Duration
	// Why says what keeps rows waiting; Stalled that open transactions do.
	Why     []string
	Stalled bool
}

// Troubled says whether the cell deserves the eye's attention.
func (p Partition) Troubled() bool {
	return !p.Owned || p.Stalled || p.Dead > 0 || p.Blocked > 0
}

// Resize is the page of the number of partitions, and of how far its change is.
type Resize struct {
	Shell
	// Partitions is how many there are, and Since when; zero: since ever.
	Partitions int
	Since      Moment
	// Resizing says that somebody is changing it, and Returned how many partitions the workers have given back to that one.
	Resizing bool
	Returned int
	// Last is the last change that was asked for here; nil: none was.
	Last *Resized
	// Given is what the form holds, Problem what is wrong with it.
	Given, Problem string
}

// Percent is how many of a hundred partitions were given back.
func (r Resize) Percent() int { return 100 * r.Returned / max(1, r.Partitions) }

// Resized is a change of the number of partitions.
type Resized struct {
	// State is "running", "done" or "failed"; Error why it failed, and what to do.
	State, Error    string
	From, To, Moved int
	Actor, Reason   string
	Ended           Moment
}

// ResizeConfirm asks before the number of partitions is changed.
type ResizeConfirm struct {
	Shell
	// From is how many there are, To how many are asked for, Moved how many pending rows would lie elsewhere.
	From, To, Moved int
	Reason, Problem string
}
