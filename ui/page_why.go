package ui

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/postrider/postrider/partition"
	"github.com/postrider/postrider/web"
)

// partitionsNamed is how many partitions are named where there may be many.
const partitionsNamed = 16

// obstaclesShown puts what keeps events waiting into words.
func obstaclesShown(s Snapshot, operable bool) []web.Obstacle {
	var list []web.Obstacle
	waits := s.Waits()
	for _, c := range s.Conditions() {
		if !slices.ContainsFunc(waits, func(w Wait) bool { return w.condition == c.Reason }) {
			list = append(list, conditionWords(c, ""))
		}
	}
	for _, o := range waits {
		one := obstacleWords(s, o)
		if !operable && strings.HasPrefix(one.Link, "messages") {
			one.Link, one.LinkText = "", ""
		}
		one.Partitions = o.Partitions
		if more := len(o.Partitions) - partitionsNamed; more > 0 {
			one.Partitions, one.More = o.Partitions[:partitionsNamed], more
		}
		list = append(list, one)
	}
	return list
}

// conditionWords says what keeps workers from delivering, and what mends it.
func conditionWords(c Condition, waiting string) web.Obstacle {
	return web.Obstacle{
		Key: strings.ReplaceAll(string(c.Reason), "_", "-"), Tone: "bad", Title: c.Reason.Title(),
		Text: fmt.Sprintf("%sSince %s UTC: %s. To mend it: %s.", waiting, c.Since.Format(time.DateTime), c.Detail, c.Cure),
	}
}

func obstacleWords(s Snapshot, o Wait) web.Obstacle {
	events, wait := web.Count(o.Events)+" events", "wait"
	if o.Events == 1 {
		events, wait = "1 event", "waits"
	}
	switch o.cause {
	case causeCondition:
		for _, c := range s.Conditions() {
			if c.Reason == o.condition {
				return conditionWords(c, events+" "+wait+". ")
			}
		}
	case causePaused:
		return web.Obstacle{Key: "paused", Tone: "warn", Title: "Paused by an operator", Text: events + " " + wait + " until the partition is resumed."}
	case causeResizing:
		return web.Obstacle{Key: "resizing", Tone: "warn", Title: "The partitions are being resized", Text: events + " " + wait + " until that has ended."}
	case causeNoOwner:
		return web.Obstacle{
			Key: "no-owner", Tone: "bad", Title: "No owner",
			Text: events + " " + wait + ". A free partition is taken within seconds; where it is not, no worker runs or none reaches the database.",
		}
	case causeTransaction:
		return web.Obstacle{
			Key: "transaction", Tone: "bad", Title: "An open transaction holds the order back",
			Text: events + " " + wait + " for " + s.Watermark.HolderNames() + ".", Link: "#stall", LinkText: "What to do",
		}
	case causeSilence:
		return web.Obstacle{
			Key: "silence", Tone: "bad", Title: "Nothing is being delivered",
			Text: events + " " + wait + " although their partitions have owners, which say nothing is wrong: their logs may tell.",
		}
	case causeDead:
		return web.Obstacle{
			Key: "dead", Tone: "bad", Title: "Dead", Text: events + " given up after the last attempt. A person requeues, skips or discards them.",
			Link: "messages?state=dead", LinkText: "Dead messages",
		}
	case causeFailed:
		return web.Obstacle{
			Key: "failed", Tone: "warn", Title: "Failed", Text: events + " failed and will be tried again without anybody's help.",
			Link: "messages?state=failed", LinkText: "Failed messages",
		}
	case causeBlocked, causes:
	}
	streams := web.Count(s.Summary().BlockedStreams) + " streams"
	if s.Summary().BlockedStreams == 1 {
		streams = "1 stream"
	}
	return web.Obstacle{
		Key: "blocked", Tone: "warn", Title: "Blocked", Text: fmt.Sprintf("%s of %s %s behind an earlier event of their stream.", events, streams, wait),
		Link: "messages?state=blocked", LinkText: "Blocked messages",
	}
}

// askedReady bounds what a page waits for the process's own readiness.
const askedReady = 2 * time.Second

// readiness is what the process last said about itself. Pages share one answer a
// second, as they share a snapshot.
type readiness struct {
	mu    sync.Mutex
	asked time.Time
	text  string
}

// notReady says why this process is not ready, empty when it is.
func (h *Handler) notReady(ctx context.Context) string {
	h.readiness.mu.Lock()
	defer h.readiness.mu.Unlock()
	if !h.readiness.asked.IsZero() && time.Since(h.readiness.asked) < h.cache.config.Interval {
		return h.readiness.text
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askedReady)
	defer cancel()
	h.readiness.text = ""
	if err := h.options.Ready(ctx); err != nil {
		h.readiness.text = scrub(err.Error())
	}
	h.readiness.asked = time.Now()
	return h.readiness.text
}

// because adds to a complaint what the process says of itself.
func (h *Handler) because(ctx context.Context) string {
	if reason := h.notReady(ctx); reason != "" {
		return " This process is not ready: " + reason
	}
	return ""
}

// rangesNamed is how many ranges of partitions are named.
const rangesNamed = 12

// ranges names ascending numbers: "0–3, 7".
func ranges[N int | partition.ID](numbers []N) string {
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
