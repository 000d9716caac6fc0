package web

// Replays is the list of replays, and the form to ask for one.
type Replays struct {
	Shell
	// MayReplay says that this visitor may ask for one; Why not, where they may act otherwise.
	MayReplay bool
	Why       string
	Rows      []Replay
	// Newest and Older lead to other pages; empty: there is none.
	Newest, Older string
	// Given is what the form holds, Problem what is wrong with it.
	Given   map[string]string
	Problem string
}

// Replay is one row of the list.
type Replay struct {
	ID              int64
	Kind, Selection string
	// To is where a shadow's messages go; empty: to the live subjects.
	To string
	// State is "waiting", "running", "interrupted", "planned", "paused", "done" or "cancelled"; Note says why, or what to do.
	State, Note string
	// Counted says that Selected is known. Dealt is how many are behind it, Failed and Gone those of them that were not delivered again.
	Counted                       bool
	Selected, Dealt, Failed, Gone int64
	Percent                       int
	Rate                          string
	Generation                    int
	Actor, Reason                 string
	Created, Finished             Moment
	// Stoppable says that it has not ended.
	Stoppable bool
}

// ReplayConfirm asks before events are replayed.
type ReplayConfirm struct {
	Shell
	Kind, Selection string
	Selected        int64
	// Waiting and Unwanted match, too, and are left out; Held says which transactions keep the end below what was asked for.
	Waiting, Unwanted int64
	Last              int64
	Held, Rate        string
	Fields            []Field
	Back              string
	Reason, Problem   string
}

// ReplayCancel asks before a replay is ended.
type ReplayCancel struct {
	Shell
	Replay
	Reason, Problem string
}
