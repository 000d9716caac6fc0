package pages

import (
	"fmt"
	"net/url"
	"strconv"

	"github.com/postrider/postrider/web"
)

// An action's result in the next page's address: a fixed word and numbers, so that nobody can put words of their own on the
// page.
const (
	paramDone    = "done"
	paramCount   = "n"
	paramWaiting = "waiting"
	paramGone    = "gone"
)

// flash returns the last action's result; nil: there was none.
func flash(q url.Values) *web.Flash {
	n := flashNumber(q, paramCount)
	messages := web.Count(n) + " messages were "
	if n == 1 {
		messages = "1 message was "
	}
	var text string
	switch q.Get(paramDone) {
	case "requeue":
		text = messages + "requeued."
	case "skip":
		text = messages + "skipped."
	case "discard":
		text = messages + "discarded."
	case "pause":
		text = fmt.Sprintf("Partition %d is paused.", n)
	case "resume":
		text = fmt.Sprintf("Partition %d is resumed.", n)
	case "drain":
		text = "The worker was asked to drain: it gives its partitions to the others and takes no new ones."
	case "replay":
		text = fmt.Sprintf("Replay %d was asked for.", n)
	case "cancel":
		text = fmt.Sprintf("Replay %d is ended.", n)
	case "resize":
		text = fmt.Sprintf("The change to %s partitions was begun.", web.Count(n))
	case "undrain":
		text = "The worker takes part again."
	case "drained":
		text = "The worker had been asked to drain before."
	default:
		return nil
	}
	tone := "good"
	if w := flashNumber(q, paramWaiting); w > 0 {
		text, tone = text+fmt.Sprintf(" %s wait behind an earlier dead message of their stream.", web.Count(w)), "warn"
	}
	if g := flashNumber(q, paramGone); g > 0 {
		text, tone = text+fmt.Sprintf(" %s had been changed by somebody else before.", web.Count(g)), "warn"
	}
	return &web.Flash{Text: text, Tone: tone}
}

func flashNumber(q url.Values, name string) int64 {
	n, err := strconv.ParseInt(q.Get(name), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
