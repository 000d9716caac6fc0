package pg

import (
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// The times that Go, JSON and browsers can all write. Earliest is not Go's zero, which stands for none.
var (
	Earliest = time.Date(1, 1, 1, 0, 0, 0, 1000, time.UTC)
	Latest   = time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC)
)

// bounded returns the time, or the bound that it is beyond.
func bounded(stored pgtype.Timestamptz) time.Time {
	at := stored.Time
	switch {
	case stored.InfinityModifier == pgtype.Infinity, stored.InfinityModifier == pgtype.Finite && at.After(Latest):
		return Latest
	case stored.InfinityModifier == pgtype.NegativeInfinity, at.Before(Earliest):
		return Earliest
	case at.Year() < Earliest.Year() || at.Year() > Latest.Year(): // only where this process is
		return at.UTC()
	}
	return at
}

// lasting returns the duration, or the longest of its sign: about 292 years. A month has 30 days.
func lasting(stored pgtype.Interval) time.Duration {
	const day = float64(24 * time.Hour)
	exact := (float64(stored.Months)*30+float64(stored.Days))*day + float64(stored.Microseconds)*float64(time.Microsecond)
	switch {
	case exact >= math.MaxInt64:
		return math.MaxInt64
	case exact <= math.MinInt64:
		return math.MinInt64
	}
	days := time.Duration(stored.Months)*30 + time.Duration(stored.Days)
	return days*24*time.Hour + time.Duration(stored.Microseconds)*time.Microsecond
}

// timeCodec reads times into time.Time within the bounds. Others than this program, and people, write tables too.
type timeCodec struct{ pgtype.TimestamptzCodec }

func (c *timeCodec) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, is := target.(*time.Time); is {
		return plan[pgtype.Timestamptz, time.Time]{c.TimestamptzCodec.PlanScan(m, oid, format, &pgtype.Timestamptz{}), bounded}
	}
	return c.TimestamptzCodec.PlanScan(m, oid, format, target)
}

// durationCodec reads intervals into time.Duration within its bounds.
type durationCodec struct{ pgtype.IntervalCodec }

func (c *durationCodec) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, is := target.(*time.Duration); is {
		return plan[pgtype.Interval, time.Duration]{c.IntervalCodec.PlanScan(m, oid, format, &pgtype.Interval{}), lasting}
	}
	return c.IntervalCodec.PlanScan(m, oid, format, target)
}

// plan scans the stored value, and assigns the bounded one.
type plan[S, T any] struct {
	read pgtype.ScanPlan
	fit  func(S) T
}

func (p plan[S, T]) Scan(src []byte, target any) error {
	if src == nil {
		return fmt.Errorf("cannot scan NULL into %T", target)
	}
	var stored S
	if err := p.read.Scan(src, &stored); err != nil {
		return err
	}
	*target.(*T) = p.fit(stored) //nolint:forcetypeassert,errcheck // PlanScan has looked
	return nil
}

// boundValues makes a connection read times and durations within bounds, alone and in arrays.
func boundValues(types *pgtype.Map) {
	for _, one := range []struct {
		name       string
		oid, array uint32
		codec      pgtype.Codec
	}{
		{"timestamptz", pgtype.TimestamptzOID, pgtype.TimestamptzArrayOID, &timeCodec{}},
		{"interval", pgtype.IntervalOID, pgtype.IntervalArrayOID, &durationCodec{}},
	} {
		element := &pgtype.Type{Name: one.name, OID: one.oid, Codec: one.codec}
		types.RegisterType(element)
		types.RegisterType(&pgtype.Type{Name: "_" + one.name, OID: one.array, Codec: &pgtype.ArrayCodec{ElementType: element}})
	}
}

// Unread returns SQL that finds a json value whose keys cannot be read: it holds half a surrogate pair, or U+0000, which no text holds.
func Unread(value string) string {
	return `regexp_replace(` + value + `::text, '\\\\|\\u[dD][89abAB]..\\u[dD][c-fC-F]..', ' ', 'g') ~ '\\u(0000|[dD][89a-fA-F])'`
}
