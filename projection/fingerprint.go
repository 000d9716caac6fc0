package projection

import (
	"fmt"
	"strings"
)

// The rows of a stream are summed up as a text: for every table with rows of it the table's place, how many they are,
// and the sum of their hashes, which does not depend on their order.

// printsOf is a query for (ord, stream_id, n, h) over the tables, of one stream (the parameter of that name) or of all.
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
		if parameter == "" {
			parameter = "''"
		}
		return `SELECT 0 AS ord, NULL::text AS stream_id, 0::bigint AS n, 0::numeric AS h WHERE ` + parameter + `::text IS NULL`
	}
	return strings.Join(parts, "\nUNION ALL\n")
}

const printText = `coalesce(pg_catalog.string_agg(pg_catalog.format('%s=%s:%s', p.ord, p.n, p.h), ' ' ORDER BY p.ord), '')`

// printOfStream is a query for the fingerprint of stream $1 in the schema that the search path names.
func (p *Projection) printOfStream() string {
	return "SELECT " + printText + " FROM (" + printsOf(p.cfg.Projector.Tables(), "", "$1", false) + ") AS p"
}

// watermarks is a query for all streams that have a watermark or rows, in the order of their keys: what is written down
// of them, and the fingerprint that their rows have now. One statement, so one snapshot.
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
