package source

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/postrider/postrider/web"
)

// Watermark is the sequence up to which the order is decided, with the transactions that it waits for. It moves only while some worker keeps
// the order of partitions.
type Watermark struct {
	// Safe is the watermark: each sequence up to it is visible or never will be.
	Safe int64
	// Highest is the highest visible sequence.
	Highest int64
	// Waiting is the time for which open transactions have held the watermark back; 0 without Holders.
	Waiting time.Duration
	// Holders are those transactions, the oldest first.
	Holders []Holder
	// Unused says that a worker has delivered beyond the watermark, as workers that keep only the order of streams do.
	Unused bool
	// Err is the error of reading the watermark; then the rest is unknown.
	Err error
}

// Holder is a transaction that holds the watermark back: it may still commit an event with a lower sequence than visible ones.
type Holder struct {
	// PID is the server process, 0 for a prepared transaction; then GID names it.
	PID int
	GID string
	// Application is the session's own name. State is empty and Age nil when the reader may not see other roles' sessions
	// (pg_read_all_stats).
	Application, State string
	// Age is the time since the transaction began or was prepared.
	Age *time.Duration
}

// String names the transaction for people.
func (h Holder) String() string {
	name, about := fmt.Sprintf("pid %d", h.PID), make([]string, 0, 3)
	if h.PID == 0 {
		name = fmt.Sprintf("prepared transaction %q", h.GID)
	}
	for _, text := range []string{h.Application, h.State} {
		if text != "" {
			about = append(about, text)
		}
	}
	if h.Age != nil {
		about = append(about, web.Duration(*h.Age)+" old")
	}
	if len(about) == 0 {
		return name
	}
	return name + " (" + strings.Join(about, ", ") + ")"
}

// Rollback returns the SQL that ends the transaction and reverts its writes.
func (h Holder) Rollback() string {
	if h.PID == 0 {
		return "ROLLBACK PREPARED " + literal(h.GID)
	}
	return fmt.Sprintf("SELECT pg_terminate_backend(%d)", h.PID)
}

// literal returns a text as an SQL literal that cannot steer a terminal.
func literal(text string) string {
	var escaped strings.Builder
	plain := true
	for _, r := range text {
		switch {
		case r == '\'' || r == '\\':
			escaped.WriteString(strings.Repeat(string(r), 2))
		case !unicode.IsPrint(r):
			plain = false
			fmt.Fprintf(&escaped, `\U%08X`, r)
		default:
			escaped.WriteRune(r)
		}
	}
	if plain {
		return "'" + strings.ReplaceAll(text, "'", "''") + "'"
	}
	return "E'" + escaped.String() + "'"
}

// WatermarkState is the state of the watermark.
type WatermarkState string

// The states of the watermark.
const (
	// WatermarkCurrent has reached the highest visible sequence.
	WatermarkCurrent WatermarkState = "current"
	// WatermarkHeld waits for transactions that are still open.
	WatermarkHeld WatermarkState = "held"
	// WatermarkBehind is held by nothing: a worker's next poll moves it.
	WatermarkBehind WatermarkState = "behind"
	// WatermarkUnused lags because no worker waits for it.
	WatermarkUnused WatermarkState = "unused"
	// WatermarkUnknown could not be read.
	WatermarkUnknown WatermarkState = "unknown"
)

// Lag is the distance in sequences, 0 when nothing waits.
func (w Watermark) Lag() int64 { return max(0, w.Highest-w.Safe) }

// State returns the watermark's state. An open transaction outweighs a delivery beyond the watermark: while workers change from one ordering
// to the other both occur.
func (w Watermark) State() WatermarkState {
	switch {
	case w.Err != nil:
		return WatermarkUnknown
	case len(w.Holders) > 0:
		return WatermarkHeld
	case w.Lag() == 0:
		return WatermarkCurrent
	case w.Unused:
		return WatermarkUnused
	default:
		return WatermarkBehind
	}
}

// holdersShown bounds the transactions named to people; programs get all.
const holdersShown = 5

// HolderNames names up to holdersShown transactions for people, the oldest first.
func (w Watermark) HolderNames() string {
	var names []string
	for _, h := range w.Holders[:min(len(w.Holders), holdersShown)] {
		names = append(names, h.String())
	}
	if more := len(w.Holders) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// Rollbacks returns the SQL that ends the transactions of HolderNames.
func (w Watermark) Rollbacks() []string {
	var statements []string
	for _, h := range w.Holders[:min(len(w.Holders), holdersShown)] {
		statements = append(statements, h.Rollback())
	}
	return statements
}

// String returns one line for people.
func (w Watermark) String() string {
	switch w.State() {
	case WatermarkUnknown:
		return "unknown: " + Scrub(w.Err.Error())
	case WatermarkHeld:
		return fmt.Sprintf("%s, %s behind, held for %s by %s", web.Count(w.Safe), web.Count(w.Lag()), web.Duration(w.Waiting), w.HolderNames())
	case WatermarkCurrent:
		return web.Count(w.Safe) + ", current"
	case WatermarkUnused:
		return "not in use: workers run with --ordering stream"
	default:
		return fmt.Sprintf("%s, %s behind, held by nothing", web.Count(w.Safe), web.Count(w.Lag()))
	}
}

type watermarkBody struct {
	State          WatermarkState `json:"state"`
	Safe           int64          `json:"safe_sequence"`
	Highest        int64          `json:"highest_sequence"`
	Lag            int64          `json:"lag"`
	WaitingSeconds float64        `json:"waiting_seconds"`
	Holders        []holderBody   `json:"holders"`
}

// holderBody has null where a field is unknown or does not apply.
type holderBody struct {
	PID         *int     `json:"pid"`
	GID         *string  `json:"gid"`
	Application *string  `json:"application_name"`
	State       *string  `json:"state"`
	AgeSeconds  *float64 `json:"age_seconds"`
}

// MarshalJSON writes the form of the API. The error is left out, as it may name hosts and users.
func (w Watermark) MarshalJSON() ([]byte, error) {
	body := watermarkBody{
		State: w.State(), Safe: w.Safe, Highest: w.Highest, Lag: w.Lag(), WaitingSeconds: Seconds(w.Waiting), Holders: []holderBody{},
	}
	for _, h := range w.Holders {
		holder := holderBody{PID: OrNull(h.PID), GID: OrNull(h.GID), Application: OrNull(h.Application), State: OrNull(h.State)}
		if h.Age != nil {
			holder.AgeSeconds = new(Seconds(*h.Age))
		}
		body.Holders = append(body.Holders, holder)
	}
	return json.Marshal(body)
}
