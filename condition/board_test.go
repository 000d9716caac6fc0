package condition_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/condition"
)

func board() *condition.Board { return condition.NewBoard(slog.New(slog.DiscardHandler)) }

func reasons(b *condition.Board) string {
	var list []string
	for _, c := range b.List() {
		list = append(list, string(c.Reason))
	}
	return strings.Join(list, " ")
}

// An outage has many symptoms: of those about one server only what explains them is listed.
func TestSymptomsOfOneOutageAreOneCondition(t *testing.T) {
	t.Parallel()
	b := board()
	changes := 0
	b.OnChange(func() { changes++ })
	told := func(r condition.Reason) error { return &condition.Error{Reason: r, Err: errors.New("it fails")} }
	for _, step := range []struct {
		source string
		err    error
		want   string
	}{
		{"delivery", told(condition.StreamAway), "stream_away"},
		{"delivery", told(condition.StreamAway), "stream_away"},
		{"stream", told(condition.StreamMissing), "stream_missing"},
		{"leases", &pgconn.PgError{Code: "25006"}, "stream_missing database_read_only"},
		{"stream", nil, "stream_away database_read_only"},
		{"heartbeat", fmt.Errorf("beat: %w", context.DeadlineExceeded), "stream_away database_read_only"},
		{"delivery", nil, "database_read_only"},
		{"leases", nil, "database_away"},
		{"heartbeat", nil, ""},
		{"heartbeat", nil, ""},
	} {
		if b.Report(step.source, step.err); reasons(b) != step.want {
			t.Errorf("after %s: %v: %q, want %q", step.source, step.err, reasons(b), step.want)
		}
	}
	for _, code := range []string{"08006", "25P03", "25P04", "53300", "57P01", "57P02", "57P03", "57P05"} {
		if b.Report("leases", &pgconn.PgError{Code: code}); reasons(b) != "database_away" {
			t.Errorf("a session that ends with %s: %q, want an outage", code, reasons(b))
		}
		b.Report("leases", nil)
	}
	if changes != 7+2*8 {
		t.Errorf("%d changes were told, want 23", changes)
	}
	var none *condition.Board
	none.Report("delivery", errors.New("x"))
	if none.List() != nil || none.First() != nil || none.Err() != nil {
		t.Error("no board lists something")
	}
}

// A condition keeps its time while its reason stays, whoever reports it, and what lasts for a while only ends by itself.
func TestHowLongAConditionLasts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, began := board(), time.Now()
		b.Report("delivery", &pgconn.PgError{Code: "42501", Message: "permission denied"})
		<-time.After(time.Minute)
		b.Report("leases", &pgconn.PgError{Code: "42501"})
		b.Report("delivery", nil)
		if first := b.First(); first == nil || !first.Since.Equal(began) || first.Reason != condition.DatabaseRights {
			t.Errorf("the condition is %+v, want one since %s", first, began)
		}
		b.Report("leases", nil)
		b.ReportFor("partition 3", errors.New("first\nsecond"), time.Second)
		if first := b.First(); first == nil || first.Detail != "first" || first.Reason != condition.Other {
			t.Errorf("the condition is %+v", first)
		}
		<-time.After(2 * time.Second)
		if b.Err() != nil {
			t.Errorf("it lasts: %v", b.Err())
		}
	})
}
