package projection

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// Difference counts one table's differing rows of one stream.
type Difference struct {
	Stream string `json:"stream"`
	Table  string `json:"table,omitempty"` // "" where the stream could not be rebuilt
	// Rows are those of the projection, Rebuilt those of the rebuild; as many on both sides have other contents.
	Rows    int64  `json:"rows"`
	Rebuilt int64  `json:"rebuilt"`
	Error   string `json:"error,omitempty"`
}

// Integrity is the result of a rebuild.
type Integrity struct {
	Streams     int          `json:"streams"` // rebuilt
	Events      int64        `json:"events"`  // versions passed
	Differences []Difference `json:"differences"`
	Equal       bool         `json:"equal"`
	Seconds     float64      `json:"seconds"`
}

const integrityWorkers = 4

// CheckIntegrity rebuilds each stream, from its first event to its watermark at one instant, in a schema of its own, which it drops. All rows are
// compared with those of that instant. It disturbs nobody and may run while workers do. progress, if set, hears after every stream,
// from several goroutines.
func (p *Projection) CheckIntegrity(ctx context.Context, progress func(done, all int)) (report Integrity, err error) {
	started := time.Now()
	scratch, drop, err := p.scratch(ctx)
	if err != nil {
		return report, fmt.Errorf("integrity: %w", err)
	}
	defer func() {
		if dropped := drop(); dropped != nil {
			err = errors.Join(err, fmt.Errorf("integrity: %w", dropped))
		}
	}()
	streams, err := p.remember(ctx, scratch)
	if err != nil {
		return report, fmt.Errorf("integrity: %w", err)
	}
	report.Streams = len(streams)
	for _, s := range streams {
		report.Events += s.version
	}
	if report.Differences, err = scratch.rebuild(ctx, streams, progress); err != nil {
		return report, fmt.Errorf("integrity: %w", err)
	}
	found, err := scratch.differences(ctx)
	if err != nil {
		return report, fmt.Errorf("integrity: %w", err)
	}
	report.Differences = append(report.Differences, found...)
	report.Equal, report.Seconds = len(report.Differences) == 0, time.Since(started).Seconds()
	return report, nil
}

type rebuilt struct {
	stream  string
	version int64
}

// remember stores the watermarks and fingerprints of all streams in the scratch schema, in one statement.
func (p *Projection) remember(ctx context.Context, scratch *Projection) ([]rebuilt, error) {
	statement := `CREATE TABLE ` + quote(scratch.schema) + `.projection_remembered AS
		SELECT coalesce(s.stream_id, f.stream_id) AS stream_id, coalesce(s.applied_version, 0) AS version, f.ord, f.n, f.h
		  FROM ` + quote(p.schema) + `.projection_streams AS s
		  FULL JOIN (` + printsOf(p.cfg.Projector.Tables(), p.schema, "", true) + `) AS f ON f.stream_id = s.stream_id`
	return unhurried(ctx, p.cfg.Pool, func(tx pgx.Tx) ([]rebuilt, error) {
		if err := scratch.enter(ctx, tx); err != nil {
			return nil, err
		}
		if _, err := tx.Exec(ctx, statement); err != nil {
			return nil, err
		}
		rows, err := tx.Query(ctx, `SELECT DISTINCT stream_id, version FROM projection_remembered WHERE version > 0 ORDER BY 1`)
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r rebuilt, err error) {
			err = row.Scan(&r.stream, &r.version)
			return r, err
		})
	})
}

// rebuild applies every stream up to its version; a stream that cannot be rebuilt is a difference.
func (p *Projection) rebuild(ctx context.Context, streams []rebuilt, progress func(done, all int)) ([]Difference, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	differences := []Difference{}
	var mu sync.Mutex
	var next, done atomic.Int64
	var working sync.WaitGroup
	for range min(integrityWorkers, int(p.cfg.Pool.Config().MaxConns)) {
		working.Go(func() {
			for i := next.Add(1); int(i) <= len(streams) && ctx.Err() == nil; i = next.Add(1) {
				s := streams[i-1]
				err := p.rebuildOne(ctx, s)
				var blamed *eventError
				switch {
				case err != nil && ctx.Err() != nil:
					return
				case errors.As(err, &blamed):
					mu.Lock()
					differences = append(differences, Difference{Stream: s.stream, Error: err.Error()})
					mu.Unlock()
				case err != nil:
					cancel(fmt.Errorf("rebuild stream %q: %w", s.stream, err))
					return
				}
				if n := done.Add(1); progress != nil {
					progress(int(n), len(streams))
				}
			}
		})
	}
	working.Wait()
	return differences, context.Cause(ctx)
}

func (p *Projection) rebuildOne(ctx context.Context, s rebuilt) error {
	return p.alone(ctx, s.stream, func(tx pgx.Tx) error {
		var at position
		for at.applied < s.version {
			limit := int(min(int64(p.cfg.BatchEvents), s.version-at.applied))
			events, err := p.next(ctx, tx, s.stream, at, limit)
			if err != nil {
				return err
			}
			if len(events) == 0 {
				return &eventError{stream: s.stream, version: at.applied + 1, cause: errors.New("the journal does not have it")}
			}
			if err := p.applyAll(ctx, tx, events); err != nil {
				return err
			}
			end := events[len(events)-1]
			at = position{applied: end.Version, event: &end.ID}
		}
		return nil
	})
}

// differences compares the rebuild with the remembered fingerprints.
func (p *Projection) differences(ctx context.Context) ([]Difference, error) {
	tables := p.cfg.Projector.Tables()
	statement := `SELECT coalesce(r.stream_id, f.stream_id), coalesce(r.ord, f.ord), coalesce(r.n, 0), coalesce(f.n, 0)
		  FROM (SELECT * FROM projection_remembered WHERE ord IS NOT NULL) AS r
		  FULL JOIN (` + printsOf(tables, p.schema, "", true) + `) AS f ON f.stream_id = r.stream_id AND f.ord = r.ord
		 WHERE r.n IS DISTINCT FROM f.n OR r.h IS DISTINCT FROM f.h
		 ORDER BY 1, 2`
	return unhurried(ctx, p.cfg.Pool, func(tx pgx.Tx) ([]Difference, error) {
		if err := p.enter(ctx, tx); err != nil {
			return nil, err
		}
		rows, err := tx.Query(ctx, statement)
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, func(row pgx.CollectableRow) (d Difference, err error) {
			var ord int
			if err = row.Scan(&d.Stream, &ord, &d.Rows, &d.Rebuilt); err == nil {
				d.Table = tables[ord].Name
			}
			return d, err
		})
	})
}

// A stream's rows are summed up as a text: for every table with rows of it the table's place, their number, and the sum of their hashes,
// which does not depend on their order.

// printsOf returns a query for (ord, stream_id, n, h) over the tables, of one stream (the parameter of that name) or of all.
func printsOf(tables []Table, schema, parameter string, unchecked bool) string {
	var parts []string
	for i, t := range tables {
		if t.Unchecked && !unchecked {
			continue
		}
		column, condition := quote(t.Stream), ""
		from := quote(t.Name)
		if schema != "" {
			from = quote(schema) + "." + from
		}
		if parameter != "" {
			condition = " WHERE t." + column + " = " + parameter
		}
		parts = append(parts, fmt.Sprintf(
			`SELECT %d AS ord, t.%s COLLATE "C" AS stream_id, pg_catalog.count(*) AS n,
				pg_catalog.sum(pg_catalog.hashtextextended(t::text, 0)) AS h FROM %s AS t%s GROUP BY 2`,
			i, column, from, condition))
	}
	if len(parts) == 0 {
		parameter = cmp.Or(parameter, "''")
		return `SELECT 0 AS ord, NULL::text AS stream_id, 0::bigint AS n, 0::numeric AS h WHERE ` + parameter + `::text IS NULL`
	}
	return strings.Join(parts, "\nUNION ALL\n")
}

const printText = `coalesce(pg_catalog.string_agg(pg_catalog.format('%s=%s:%s', p.ord, p.n, p.h), ' ' ORDER BY p.ord), '')`

// printOfStream returns a query for the fingerprint of stream $1 in the schema that the search path names.
func (p *Projection) printOfStream() string {
	return "SELECT " + printText + " FROM (" + printsOf(p.cfg.Projector.Tables(), "", "$1", false) + ") AS p"
}

// watermarks returns a query for all streams that have a watermark or rows, in the order of their keys: the stored state, and the fingerprint
// of their rows now. One statement, so one snapshot.
func (p *Projection) watermarks(fingerprints bool) string {
	prints := `SELECT NULL::text COLLATE "C" AS stream_id, ''::text AS print WHERE false`
	if fingerprints {
		prints = "SELECT p.stream_id, " + printText + " AS print FROM (" +
			printsOf(p.cfg.Projector.Tables(), p.schema, "", false) + ") AS p GROUP BY p.stream_id"
	}
	return `SELECT coalesce(s.stream_id, f.stream_id), s.stream_id IS NOT NULL, coalesce(s.applied_version, 0),
	       coalesce(s.expected_version, 1),
	       coalesce(s.wanted_version, 0), s.applied_event, s.due_at IS NOT NULL OR s.dead_at IS NOT NULL,
	       coalesce(s.fingerprint, ''), coalesce(f.print, '')
	  FROM ` + quote(p.schema) + `.projection_streams AS s
	  FULL JOIN (` + prints + `) AS f ON f.stream_id = s.stream_id
	 ORDER BY coalesce(s.stream_id, f.stream_id) COLLATE "C"`
}
