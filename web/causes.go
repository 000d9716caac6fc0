package web

// Causes is the page of dead messages by cause.
type Causes struct {
	Shell
	// Scope describes the filter; empty: none.
	Scope string
	// Rows are the most frequent causes, in that order.
	Rows []Cause
	// Total counts all messages read, Others those of rarer causes than the Rows.
	Total, Others int64
	// More says that further dead messages were not read.
	More bool
}

// Cause is a group of dead messages with one cause.
type Cause struct {
	Count       int64
	Topic, Type string
	// Class is "temporary", "permanent", "mixed" or empty.
	Class string
	// Share is Count in percent of the most frequent cause's.
	Share int
	// First and Last are times of death.
	First, Last Moment
	// Example is one of the messages, Error its last error.
	Example int64
	Error   string
	// List is the address of their list; Confirm, with a verb at its end, that of the confirmation page. Empty where no filter selects
	// them alone.
	List, Confirm string
}
