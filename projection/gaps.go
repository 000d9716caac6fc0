package projection

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/pg"
)

// GapKind classes a fault of a stream.
type GapKind string

// The kinds of gaps.
const (
	// Trailing: the journal has events to apply behind the watermark and nothing is planned.
	Trailing GapKind = "trailing"
	// MidStream: the next version does not follow the applied one.
	MidStream GapKind = "mid_stream"
	// MissingWatermark: there are rows or events of the stream and no watermark.
	MissingWatermark GapKind = "missing_watermark"
	// Rows: the stream's rows are not those that the last event left.
	Rows GapKind = "rows"
	// Ahead: the projection knows a version that the journal does not have.
	Ahead GapKind = "ahead"
	// Dropped: events that were not applied are not in the journal any more. See Config.FromKept.
	Dropped GapKind = "dropped"
	// Diverged: the event at the watermark is another one than the one applied.
	Diverged GapKind = "diverged"
)

// Gap is one stream that does not hold its events' rows.
type Gap struct {
	Stream   string  `json:"stream"`
	Kind     GapKind `json:"kind"`
	Applied  int64   `json:"applied_version"`
	Expected int64   `json:"expected_version"`
	Journal  int64   `json:"journal_version"`
	First    int64   `json:"first_version"` // in the journal; 0 where it has none of the stream

	rows bool // there are rows of the stream
}

// Report is the result of Detect.
type Report struct {
	Streams int `json:"streams"` // in the journal or the projection
	// Behind are streams with a backlog that is planned: no gaps.
	Behind int   `json:"behind"`
	Gaps   []Gap `json:"gaps"`
}

// Grace is the age from which Detect misses an event's announcement.
const Grace = 10 * time.Second

// watermark is the projection's state of a stream.
type watermark struct {
	stream                    string
	known, planned            bool
	applied, expected, wanted int64
	event                     *uuid.UUID
	stored, actual            string // fingerprints
}

// head is the end of a stream in the journal.
type head struct {
	stream       string
	first        int64     // 0: it was dropped whole
	last, wanted int64     // wanted: the last one that is not for the audit alone, 0 if there is none
	event        uuid.UUID // zero: it was dropped
	old          bool      // wanted is older than the grace
}

func (h head) lacks(applied int64) bool {
	return h.first > applied+1 || h.first == 0 && h.last > applied
}

// Detect compares all watermarks and all rows with the journal. It changes nothing and may run at any time. Events younger than grace may
// still be on their way and are not missed.
func (p *Projection) Detect(ctx context.Context, grace time.Duration) (Report, error) {
	report, _, err := p.detect(ctx, grace, true)
	p.metrics.found.Add(float64(len(report.Gaps)))
	return report, err
}

// detect also returns the versions of the streams that are behind.
func (p *Projection) detect(ctx context.Context, grace time.Duration, fingerprints bool) (Report, map[string]int64, error) {
	report, behind := Report{Gaps: []Gap{}}, map[string]int64{}
	marks, err := p.marks(ctx, fingerprints)
	if err != nil {
		return report, nil, err
	}
	// The journal is read later than the watermarks: a watermark beyond its end is really one.
	heads, err := p.journal.ends(ctx, p.cfg.Pool, grace)
	if err != nil {
		return report, nil, err
	}
	heads, err = p.journal.withDropped(ctx, p.cfg.Pool, marks, heads, fingerprints)
	if err != nil {
		return report, nil, err
	}
	for len(marks) > 0 || len(heads) > 0 {
		var w watermark
		var h head
		switch {
		case len(heads) == 0 || len(marks) > 0 && marks[0].stream < heads[0].stream:
			w, marks = marks[0], marks[1:]
		case len(marks) == 0 || heads[0].stream < marks[0].stream:
			h, heads = heads[0], heads[1:]
		default:
			w, h, marks, heads = marks[0], heads[0], marks[1:], heads[1:]
		}
		report.Streams++
		if h.wanted > w.applied {
			behind[h.stream] = h.wanted
			if w.planned {
				report.Behind++
			}
		}
		if kind, found := judge(w, h, fingerprints, p.cfg.FromKept); found {
			report.Gaps = append(report.Gaps, Gap{
				Stream: max(w.stream, h.stream), Kind: kind, First: h.first, Applied: w.applied, Expected: w.expected, Journal: h.last, rows: w.actual != "",
			})
		}
	}
	return report, behind, nil
}

// judge compares one stream and returns its worst fault.
func judge(w watermark, h head, fingerprints, fromKept bool) (GapKind, bool) {
	switch {
	case !w.known && w.actual != "":
		return MissingWatermark, true
	case h.lacks(w.applied) && (w.applied > 0 || !fromKept):
		return Dropped, true
	case !w.known && h.wanted > 0 && h.old:
		return MissingWatermark, true
	case !w.known:
		return "", false
	case w.applied > h.last || w.wanted > h.last:
		return Ahead, true
	case w.applied == h.last && w.event != nil && h.event != uuid.Nil && *w.event != h.event:
		return Diverged, true
	case w.expected <= w.applied || w.expected > w.applied+1:
		return MidStream, true
	case fingerprints && w.stored != w.actual:
		return Rows, true
	case h.wanted > w.applied && h.old && !w.planned:
		return Trailing, true
	}
	return "", false
}

// marks reads the watermarks, in the order of the streams' bytes.
func (p *Projection) marks(ctx context.Context, fingerprints bool) (all []watermark, err error) {
	// Fingerprints are of the rows as text: the settings have to be those of their storage.
	all, err = unhurried(ctx, p.cfg.Pool, func(tx pgx.Tx) ([]watermark, error) {
		if err := p.enter(ctx, tx); err != nil {
			return nil, err
		}
		rows, err := tx.Query(ctx, p.watermarks(fingerprints))
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, func(row pgx.CollectableRow) (w watermark, err error) {
			err = row.Scan(&w.stream, &w.known, &w.applied, &w.expected, &w.wanted, &w.event, &w.planned, &w.stored, &w.actual)
			return w, err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read the watermarks: %w", err)
	}
	return all, nil
}

// withDropped adds the ends of streams whose events were all dropped: those with a watermark, or all of them. A role without the right to
// read them takes such a stream for one that the database forgot.
func (j *journal) withDropped(ctx context.Context, db pg.DB, marks []watermark, heads []head, all bool) ([]head, error) {
	there := make(map[string]bool, len(heads))
	for _, h := range heads {
		there[h.stream] = true
	}
	if !all && !slices.ContainsFunc(marks, func(w watermark) bool { return max(w.applied, w.wanted) > 0 && !there[w.stream] }) {
		return heads, nil
	}
	dropped, err := unhurried(ctx, j.in(db), func(tx pgx.Tx) ([]head, error) {
		return pg.Collect(ctx, tx, j.sql.Dropped, nil, func(row pgx.CollectableRow) (h head, err error) {
			err = row.Scan(&h.stream, &h.last)
			return h, err
		})
	})
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && (refused.Code == "42501" || refused.Code == "42P01") { // no right; a journal without this table
		return heads, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what was dropped of the journal: %w", err)
	}
	heads = append(heads, dropped...)
	slices.SortFunc(heads, func(a, b head) int { return strings.Compare(a.stream, b.stream) })
	return heads, nil
}

// ends reads the end of every stream, in the order of their bytes.
func (j *journal) ends(ctx context.Context, db pg.DB, grace time.Duration) ([]head, error) {
	heads, err := unhurried(ctx, j.in(db), func(tx pgx.Tx) ([]head, error) {
		if err := j.seen(j.sql.Hidden.Row(ctx, tx, nil)); err != nil {
			return nil, err
		}
		return pg.Collect(ctx, tx, j.sql.Heads, pg.Args{"grace": grace}, func(row pgx.CollectableRow) (h head, err error) {
			err = row.Scan(&h.stream, &h.first, &h.last, &h.event, &h.wanted, &h.old)
			return h, err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	return heads, nil
}
