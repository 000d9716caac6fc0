package pages

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider/ui/source"
	"github.com/postrider/postrider/web"
)

// partitionsNamed is how many partitions are named where there may be many.
const partitionsNamed = 16

// obstaclesShown puts what keeps events waiting into words, with links to the pages that there are.
func obstaclesShown(s source.Snapshot, operable, resizable bool) []web.Obstacle {
	var list []web.Obstacle
	waits := s.Waits()
	for _, c := range s.Conditions() {
		if !slices.ContainsFunc(waits, func(w source.Wait) bool { return w.Reason == string(c.Reason) }) {
			list = append(list, conditionWords(c, ""))
		}
	}
	for _, o := range waits {
		one := obstacleWords(s, o)
		if !operable && strings.HasPrefix(one.Link, "messages") || !resizable && one.Link == pathResize {
			one.Link, one.LinkText = "", ""
		}
		one.Partitions = o.Partitions
		if more := len(o.Partitions) - partitionsNamed; more > 0 {
			one.Partitions, one.More = o.Partitions[:partitionsNamed], more
		}
		list = append(list, one)
	}
	for i, f := range s.WriteFaults {
		list = append(list, web.Obstacle{
			Key: fmt.Sprint("writes-", i+1), Tone: "bad", Title: "Writes fail or have no events", Text: source.Scrub(f.Detail) + ". To mend it: " + source.Scrub(f.Cure) + ".",
		})
	}
	for i, text := range s.Canaries() {
		list = append(list, web.Obstacle{Key: fmt.Sprint("canary-", i+1), Tone: "bad", Title: "The canary", Text: "It is " + text + "."})
	}
	return list
}

// conditionWords says what keeps workers from delivering, and what mends it.
func conditionWords(c source.Condition, waiting string) web.Obstacle {
	return web.Obstacle{
		Key: strings.ReplaceAll(string(c.Reason), "_", "-"), Tone: "bad", Title: c.Reason.Title(),
		Text: fmt.Sprintf("%sSince %s UTC: %s. To mend it: %s.", waiting, c.Since.Format(time.DateTime), c.Detail, c.Cure),
	}
}

func obstacleWords(s source.Snapshot, o source.Wait) web.Obstacle {
	events, wait := web.Count(o.Events)+" events", "wait"
	if o.Events == 1 {
		events, wait = "1 event", "waits"
	}
	for _, c := range s.Conditions() {
		if o.Reason == string(c.Reason) {
			return conditionWords(c, events+" "+wait+". ")
		}
	}
	switch o.Reason {
	case source.WaitPaused:
		return web.Obstacle{Key: "paused", Tone: "warn", Title: "Paused by an operator", Text: events + " " + wait + " until the partition is resumed."}
	case source.WaitResizing:
		return web.Obstacle{
			Key: "resizing", Tone: "warn", Title: "The partitions are being resized", Text: events + " " + wait + " until that has ended.",
			Link: pathResize, LinkText: "How far it is",
		}
	case source.WaitNoOwner:
		return web.Obstacle{
			Key: "no-owner", Tone: "bad", Title: "No owner",
			Text: events + " " + wait + ". A free partition is taken within seconds; where it is not, no worker runs or none reaches the database.",
		}
	case source.WaitClock:
		return web.Obstacle{
			Key: "clock", Tone: "bad", Title: "The database's clock has stepped back",
			Text: events + " " + wait + ": a lease ends later than leases can. Its owner renews it, or another worker takes it after a lease's time.",
		}
	case source.WaitTransaction:
		return web.Obstacle{
			Key: "transaction", Tone: "bad", Title: "An open transaction holds the order back",
			Text: events + " " + wait + " for " + s.Watermark.HolderNames() + ".", Link: "#stall", LinkText: "What to do",
		}
	case source.WaitSilence:
		return web.Obstacle{
			Key: "silence", Tone: "bad", Title: "Nothing is being delivered",
			Text: events + " " + wait + " although their partitions have owners, which say nothing is wrong: their logs may tell.",
		}
	case source.WaitEnded:
		return web.Obstacle{
			Key: "workers-ended", Tone: "bad", Title: "Workers ended over the first messages",
			Text: events + " " + wait + " in a partition that is paused for it. Mend what ends the workers, then resume the partition.",
		}
	case source.WaitDead:
		return web.Obstacle{
			Key: "dead", Tone: "bad", Title: "Dead", Text: events + " given up. A person requeues, skips or discards them.",
			Link: "messages?state=dead", LinkText: "Dead messages",
		}
	case source.WaitFailed:
		return web.Obstacle{
			Key: "failed", Tone: "warn", Title: "Failed", Text: events + " failed and will be tried again without anybody's help.",
			Link: "messages?state=failed", LinkText: "Failed messages",
		}
	case source.WaitBlocked:
		streams := web.Count(s.Summary().BlockedStreams) + " streams"
		if s.Summary().BlockedStreams == 1 {
			streams = "1 stream"
		}
		return web.Obstacle{
			Key: "blocked", Tone: "warn", Title: "Blocked", Text: fmt.Sprintf("%s of %s %s behind an earlier event of their stream.", events, streams, wait),
			Link: "messages?state=blocked", LinkText: "Blocked messages",
		}
	}
	return web.Obstacle{Key: strings.ReplaceAll(o.Reason, "_", "-"), Tone: "bad", Title: o.Reason, Text: events + " " + wait + ": " + o.Text + "."}
}
