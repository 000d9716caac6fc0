package loop

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/condition"
	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/lease/leasetest"
)

// boarded is a relay of nothing, with the board on which it reports.
func boarded(t *testing.T) (*Relay, *condition.Board) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	b := condition.NewBoard(log)
	r, err := NewRelay(Config{Board: b, Logger: log}, nil, instant{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r, b
}

// What stops the relay stands on the board until something was published, or nothing is left to be; that a partition could be taken
// proves neither.
func TestAPauseStandsOnTheBoard(t *testing.T) {
	t.Parallel()
	r, b := boarded(t)
	broken := &condition.Error{Reason: condition.StreamFull, Err: errors.New("the stream is full")}
	want := func(when string, detail string) {
		t.Helper()
		switch first := b.First(); {
		case first == nil && detail != "", first != nil && first.Detail != detail:
			t.Errorf("%s the board says %+v, want %q", when, first, detail)
		}
	}
	r.away(broken)
	want("after a failure", "the stream is full")
	r.notRefused(3)
	want("after a partition was taken", "the stream is full")
	r.succeeded(2)
	want("after something was published", "")
	r.unpublished(3, broken)
	want("while one partition pauses alone", "the stream is full")
	r.succeeded(2)
	want("while another one flows", "the stream is full")
	r.stats.flowed.set(time.Time{})
	r.unpublished(2, &condition.Error{Reason: condition.BrokerFull, Err: errors.New("the broker is full")})
	want("when nothing flows any more, for another reason", "the broker is full")
	r.succeeded(3)
	want("when it flows again", "")
	r.unpublished(3, broken)
	r.idle()
	want("after a look that found nothing", "")
	newer := &condition.Error{Reason: condition.FenceRefused, Err: fmt.Errorf("%w: epoch 7", delivery.ErrFenced)}
	r.refusedByFence(3, newer)
	want("when the fence refused once", "")
	r.refusedByFence(3, newer)
	want("when it refused again", newer.Error())
	r.notRefused(3)
	want("when the partition was taken", "")
}

// What is measured from a success or a failure does not stretch where this machine's wall clock steps back.
func TestPausesAreMeasuredByTheMonotonicClock(t *testing.T) {
	t.Parallel()
	r, _ := boarded(t)
	if r.Flows() || r.Stats().PausedFor != 0 {
		t.Error("it flows, or pauses, before anything happened")
	}
	r.away(errors.New("the stream is away"))
	r.succeeded(1)
	for what, at := range map[string]time.Time{"success": r.stats.flowed.get(), "pause": r.stats.pausedUntil.get()} {
		if !strings.Contains(at.String(), " m=") {
			t.Errorf("the last %s is kept as %s, without a monotonic clock", what, at)
		}
	}
	if !r.Flows() || r.Stats().PausedFor <= 0 {
		t.Error("a success and a pause are not noted")
	}
}

// A partition that pauses alone is told of by its owner: not by one that lost it.
func TestAPauseEndsWithTheLease(t *testing.T) {
	t.Parallel()
	r, b := boarded(t)
	l := leasetest.Held(3, 1)
	r.stateOf(l)
	r.succeeded(2)
	r.unpublished(3, errors.New("the database is away"))
	if r.enter(t.Context(), nil, 0, true); b.First() == nil {
		t.Error("the board says nothing while the lease is held")
	}
	l.Lost()
	if r.enter(t.Context(), nil, 0, true); b.First() != nil {
		t.Errorf("the board says %+v", b.First())
	}
}

// What was kept of an event is not taken for another one's, which has its sequence in the database that took over.
func TestAnotherServersEventsAreReadAnew(t *testing.T) {
	t.Parallel()
	r, _ := boarded(t)
	b := delivery.Batch{Server: time.Now(), Messages: []delivery.Message{{Pointer: delivery.Pointer{Sequence: 100}, Event: &delivery.Event{Sequence: 100}}}}
	if _, trouble := r.observe(b, []delivery.Outcome{{Kind: delivery.Retry, Err: errors.New("not now")}}); trouble != nil {
		t.Error(trouble)
	}
	if !r.cache.Contains(keyOf(b, 100)) {
		t.Error("it is not kept for its next attempt")
	}
	b.Server = b.Server.Add(time.Hour)
	if r.cache.Contains(keyOf(b, 100)) {
		t.Error("it is kept for another server's")
	}
}

// Marks that failed are told of as long as they are this worker's to make: not when the lease is lost.
func TestMarksOfALostLeaseAreNotToldOf(t *testing.T) {
	t.Parallel()
	r, b := boarded(t)
	l := leasetest.Held(3, 1)
	b.ReportFor("marks of "+boardName(3), errors.New("the database is away"), alonePauses)
	l.Lost()
	r.markAlone(newTerm(l), delivery.Result{})
	<-r.mail.arrived
	if r.read(); b.First() != nil {
		t.Errorf("the board says %+v", b.First())
	}
}
