package pages

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider/ui/source"
	"github.com/postrider/postrider/web"
)

// partitionsNamed bounds the partitions that a page names.
const partitionsNamed = 16

// obstaclesShown puts the causes of waits into words, with links to existing pages.
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

// conditionWords describes a condition, with its cure.
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
	waits := events + " " + wait
	for _, c := range s.Conditions() {
		if o.Reason == string(c.Reason) {
			return conditionWords(c, waits+". ")
		}
	}
	one := web.Obstacle{Key: strings.ReplaceAll(o.Reason, "_", "-"), Tone: "bad", Title: o.Reason, Text: waits + ": " + o.Text + "."}
	switch o.Reason {
	case source.WaitPaused:
		one.Tone, one.Title, one.Text = "warn", "Paused by an operator", waits+" until the partition is resumed."
	case source.WaitResizing:
		one.Tone, one.Title, one.Text = "warn", "The partitions are being resized", waits+" until that has ended."
		one.Link, one.LinkText = pathResize, "How far it is"
	case source.WaitNoOwner:
		one.Title = "No owner"
		one.Text = waits + ". A free partition is taken within seconds; where it is not, no worker runs or none reaches the database."
	case source.WaitClock:
		one.Title = "The database's clock has stepped back"
		one.Text = waits + ": a lease ends later than leases can. Its owner renews it, or another worker takes it after a lease's time."
	case source.WaitTransaction:
		one.Title, one.Text = "An open transaction holds the order back", waits+" for "+s.Watermark.HolderNames()+"."
		one.Link, one.LinkText = "#stall", "What to do"
	case source.WaitSilence:
		one.Title = "Nothing is being delivered"
		one.Text = waits + " although their partitions have owners, which say nothing is wrong: their logs may tell."
	case source.WaitEnded:
		one.Title = "Workers ended over the first messages"
		one.Text = waits + " in a partition that is paused for it. Mend what ends the workers, then resume the partition."
	case source.WaitDead:
		one.Title, one.Text = "Dead", events+" given up. A person requeues, skips or discards them."
		one.Link, one.LinkText = "messages?state=dead", "Dead messages"
	case source.WaitFailed:
		one.Tone, one.Title, one.Text = "warn", "Failed", events+" failed and will be tried again without anybody's help."
		one.Link, one.LinkText = "messages?state=failed", "Failed messages"
	case source.WaitBlocked:
		streams := web.Count(s.Summary().BlockedStreams) + " streams"
		if s.Summary().BlockedStreams == 1 {
			streams = "1 stream"
		}
		one.Tone, one.Title, one.Text = "warn", "Blocked", fmt.Sprintf("%s of %s %s behind an earlier event of their stream.", events, streams, wait)
		one.Link, one.LinkText = "messages?state=blocked", "Blocked messages"
	}
	return one
}
