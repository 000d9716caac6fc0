package source

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider/condition"
	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/partition"
	"github.com/postrider/postrider/web"
)

// worthAWord is the least wait for order that is shown: a producer's transaction may take a moment.
const worthAWord = time.Second

// Stalled reports whether events wait for open transactions: they have held the watermark back for more than a second, and an event has been
// pending as long in an unpaused partition.
func (s Snapshot) Stalled() bool {
	return slices.ContainsFunc(s.Partitions, s.WaitsForOrder)
}

// WaitsForOrder ignores events younger than worthAWord: a watermark that nobody uses may be held, too, and then events do not
// wait.
func (s Snapshot) WaitsForOrder(p Partition) bool {
	return s.Watermark.State() == WatermarkHeld && s.Watermark.Waiting > worthAWord &&
		p.PausedAt == nil && p.OldestPending > worthAWord
}

// Reasons of a Wait; a condition of workers has its own.
const (
	WaitPaused      = "paused"
	WaitResizing    = "resizing"
	WaitNoOwner     = "no_owner"
	WaitClock       = "clock"
	WaitTransaction = "transaction"
	WaitSilence     = "silence"
	WaitEnded       = "workers_ended"
	WaitDead        = "dead"
	WaitFailed      = "failed"
	WaitBlocked     = "blocked"
)

// cause is one kind of cause for which events wait.
type cause int

// The causes by severity: outages, then faults that an operator ends, then waits that end by themselves or were intended.
const (
	causeCondition cause = iota // of a worker
	causeNoOwner
	causeClock
	causeTransaction
	causeSilence
	causeEnded
	causeDead
	causeBlocked
	causeFailed
	causeResizing
	causePaused
	causes
)

// word names the cause for programs and metrics; a condition has its own word.
func (c cause) word() string {
	return [causes]string{
		"condition", WaitNoOwner, WaitClock, WaitTransaction, WaitSilence, WaitEnded, WaitDead, WaitBlocked, WaitFailed,
		WaitResizing, WaitPaused,
	}[c]
}

// hindrance is a cause in one partition.
type hindrance struct {
	cause
	// reason is the condition's.
	reason condition.Reason
	// events is the number of waiting events, as far as counted.
	events int64
	// text describes the cause for people.
	text string
}

// silenceCounts is the age of the oldest pending event from which silence is a cause.
const silenceCounts = 30 * time.Second

// silent reports whether no event was delivered or tried for a minute or more.
func (s Snapshot) silent() bool {
	if len(s.Minutes) < 2 {
		return false
	}
	return !slices.ContainsFunc(s.Minutes[len(s.Minutes)-2:], func(m Minute) bool { return m.Published+m.Failed+m.Skipped > 0 })
}

// hindrances lists the causes for which events of the partition wait; empty when none wait or none is known.
func (s Snapshot) hindrances(p Partition) []hindrance {
	if p.OldestPending > 0 {
		p.Pending = max(p.Pending, 1) // the event came after the last count
	}
	if p.Pending+p.Failed+p.Blocked+p.Dead == 0 {
		return nil
	}
	var list []hindrance
	add := func(c cause, events int64, format string, args ...any) {
		list = append(list, hindrance{cause: c, events: events, text: fmt.Sprintf(format, args...)})
	}
	if c := s.hinders(p); c != nil && p.Pending > 0 {
		add(causeCondition, p.Pending, "%s: %s", strings.ToLower(c.Reason.Title()[:1])+c.Reason.Title()[1:], Scrub(c.Detail))
		list[0].reason = c.Reason
	}
	switch {
	case p.PausedAt != nil && p.Crashes >= loop.CrashesToPause-1:
		add(causeEnded, p.Pending, "paused: workers ended one after the other while they carried the first messages; mend what ends them, then resume it")
	case p.PausedAt != nil:
		add(causePaused, p.Pending, "paused since %s UTC", p.PausedAt.UTC().Format(time.DateTime))
	}
	switch {
	case p.Owned() && p.Ahead:
		add(causeClock, p.Pending, "the database's clock has stepped back behind the lease: its owner renews it, or another one takes it after a lease's time")
	case p.Owned():
	case s.Frozen:
		add(causeResizing, p.Pending, "no owner: the partitions are being resized")
	default:
		add(causeNoOwner, p.Pending, "no owner")
	}
	if s.WaitsForOrder(p) {
		add(causeTransaction, p.Pending, "order waits for %s", s.Watermark.HolderNames())
	}
	if len(list) == 0 && p.OldestPending > silenceCounts && s.silent() {
		add(causeSilence, p.Pending, "its owner delivers nothing and does not say why")
	}
	if p.Dead > 0 {
		add(causeDead, p.Dead, "%s dead, until a person acts", web.Count(p.Dead))
	}
	if p.Failed > 0 {
		add(causeFailed, p.Failed, "%s failed, to be tried again", web.Count(p.Failed))
	}
	if p.Blocked > 0 {
		add(causeBlocked, p.Blocked, "%s blocked behind an earlier event of their stream", web.Count(p.Blocked))
	}
	slices.SortStableFunc(list, func(a, b hindrance) int { return cmp.Compare(a.cause, b.cause) })
	return list
}

// Why lists for people the causes for which events of the partition wait; empty when none wait or none is known.
func (s Snapshot) Why(p Partition) []string {
	var why []string
	for _, one := range s.hindrances(p) {
		why = append(why, one.text)
	}
	return why
}

// Wait is one cause over all partitions, for pages, commands, API and metrics.
type Wait struct {
	// Reason is the cause in one word; a condition of workers has its own.
	Reason     string `json:"reason"`
	Partitions []int  `json:"partitions"`
	// Events is the number of waiting events, as far as counted.
	Events int64 `json:"events"`
	// Text describes the cause for people.
	Text string `json:"text"`

	cause cause
}

// Waits lists the causes of waits, over all partitions, in the order in which a person should see to them.
func (s Snapshot) Waits() []Wait {
	list := []Wait{}
	for _, p := range s.Partitions {
		for _, one := range s.hindrances(p) {
			reason := cmp.Or(string(one.reason), one.word())
			i := slices.IndexFunc(list, func(w Wait) bool { return w.Reason == reason })
			if i < 0 {
				i = len(list)
				list = append(list, Wait{Reason: reason, Text: one.text, cause: one.cause})
			}
			list[i].Partitions = append(list[i].Partitions, p.Number)
			list[i].Events += one.events
		}
	}
	for i := range list {
		list[i].Text = list[i].sum(s)
	}
	slices.SortStableFunc(list, func(a, b Wait) int { return cmp.Compare(a.cause, b.cause) })
	return list
}

// sum returns the text for several partitions, where a single one's would not do.
func (w Wait) sum(s Snapshot) string {
	switch w.cause {
	case causePaused:
		var since time.Time
		for _, p := range s.Partitions {
			if slices.Contains(w.Partitions, p.Number) && (since.IsZero() || p.PausedAt.Before(since)) {
				since = *p.PausedAt
			}
		}
		return fmt.Sprintf("paused by an operator since %s UTC", since.UTC().Format(time.DateTime))
	case causeDead:
		return web.Count(w.Events) + " dead, until a person acts"
	case causeFailed:
		return web.Count(w.Events) + " failed, to be tried again"
	case causeBlocked:
		return web.Count(w.Events) + " blocked behind an earlier event of their stream"
	case causeCondition, causeResizing, causeNoOwner, causeClock, causeTransaction, causeSilence, causes:
	}
	return w.Text
}

// Where names the partitions for people: "partitions 0–3, 7".
func (w Wait) Where() string {
	if len(w.Partitions) == 1 {
		return "partition " + Ranges(w.Partitions)
	}
	return "partitions " + Ranges(w.Partitions)
}

// WaitReasons returns all reasons of a Wait.
func WaitReasons() []string {
	var list []string
	for c := causeCondition + 1; c < causes; c++ {
		list = append(list, c.word())
	}
	for _, r := range condition.Reasons() {
		list = append(list, string(r))
	}
	return list
}

// rangesNamed bounds the named ranges of partitions.
const rangesNamed = 12

// Ranges names ascending numbers: "0–3, 7".
func Ranges[N int | partition.ID](numbers []N) string {
	var parts []string
	for i := 0; i < len(numbers); {
		end := i
		for end+1 < len(numbers) && numbers[end+1] == numbers[end]+1 {
			end++
		}
		if len(parts) == rangesNamed {
			return strings.Join(parts, ", ") + fmt.Sprintf(" and %d more", len(numbers)-i)
		}
		switch end {
		case i:
			parts = append(parts, fmt.Sprint(numbers[i]))
		case i + 1:
			parts = append(parts, fmt.Sprint(numbers[i]), fmt.Sprint(numbers[end]))
		default:
			parts = append(parts, fmt.Sprintf("%d–%d", numbers[i], numbers[end]))
		}
		i = end + 1
	}
	return strings.Join(parts, ", ")
}
