package web

// Causes is the page of dead messages by what they died of.
type Causes struct {
	Shell
	// Scope says in words what is filtered by; empty: nothing.
	Scope string
	// Rows are the most frequent causes, that one first.
	Rows []Cause
	// Total counts all that were looked at, Others those of rarer causes than the Rows.
	Total, Others int64
	// More says that there are dead messages that were not looked at.
	More bool
}

// Cause is dead messages that died of the same.
type Cause struct {
	Count       int64
	Topic, Type string
	// Class is "temporary", "permanent", "mixed" or empty.
	Class string
	// Share is how much of the most frequent cause's count this is, in percent.
	Share int
	// First and Last are when they died.
	First, Last Moment
	// Example is one of them, Error its last error.
	Example int64
	Error   string
	// List is the address of their list; Confirm, with a verb at its end, that of the page that asks before they are changed. Empty
	// where no filter chooses them alone.
	List, Confirm string
}
