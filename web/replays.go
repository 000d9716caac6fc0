package web

// Replays is the list of replays, with the form for one.
type Replays struct {
	Shell
	// MayReplay says that this visitor may ask for one; Why says why not, where they may act otherwise.
	MayReplay bool
	Why       string
	Rows      []Replay
	// Newest and Older lead to other pages; empty: there is none.
	Newest, Older string
	// Given holds the form's values, Problem their fault.
	Given   map[string]string
	Problem string
}

// Replay is one row of the list.
type Replay struct {
	ID              int64
	Kind, Selection string
	// To is the target of a shadow's messages; empty: the live subjects.
	To string
	// State is "waiting", "running", "interrupted", "planned", "paused", "done" or "cancelled"; Note gives the reason or cure.
	State, Note string
	// Counted says that Selected is known. Dealt counts the events dealt with, Failed and Gone those of them not delivered again.
	Counted                       bool
	Selected, Dealt, Failed, Gone int64
	Percent                       int
	Rate                          string
	Generation                    int
	Actor, Reason                 string
	Created, Finished             Moment
	// Stoppable says that the replay has not ended.
	Stoppable bool
}

// ReplayConfirm asks before events are replayed.
type ReplayConfirm struct {
	Shell
	Kind, Selection string
	Selected        int64
	// Waiting and Unwanted count events that match but are left out; Held names the transactions that lower the end.
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
