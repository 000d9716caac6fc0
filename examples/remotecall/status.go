package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// targetStatus says how things stand at one target.
type targetStatus struct {
	Target string `json:"target"`
	// Unarrived calls wait for their event, Waiting for their turn; Sending is the number of attempts of the head.
	Unarrived int `json:"unarrived"`
	Waiting   int `json:"waiting"`
	Attempts  int `json:"attempts"`
	// Callbacks fail and are tried again, Dead ones wait for a person.
	Callbacks int `json:"callbacks_failing"`
	Dead      int `json:"callbacks_dead"`
	// OldestSeconds is the age of the oldest call.
	OldestSeconds float64 `json:"oldest_seconds"`
	LastError     string  `json:"last_error,omitempty"`
}

func status(ctx context.Context, pool *pgxpool.Pool) ([]targetStatus, error) {
	rows, err := pool.Query(ctx, `SELECT t.target,
			count(*) FILTER (WHERE c.arrived_at IS NULL AND c.call_id IS NOT NULL),
			count(*) FILTER (WHERE c.arrived_at IS NOT NULL AND c.outcome IS NULL),
			coalesce((array_agg(c.attempts ORDER BY c.call_id) FILTER (WHERE c.outcome IS NULL))[1], 0),
			count(*) FILTER (WHERE c.outcome IS NOT NULL AND c.dead_at IS NULL),
			count(*) FILTER (WHERE c.dead_at IS NOT NULL),
			coalesce(extract(epoch FROM clock_timestamp() - min(c.created_at)), 0)::float8,
			coalesce((array_agg(c.last_error ORDER BY c.call_id) FILTER (WHERE c.last_error IS NOT NULL))[1], '')
		FROM remote_targets t LEFT JOIN remote_calls c USING (target) GROUP BY t.target ORDER BY t.target`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[targetStatus])
}

// printStatus writes a table, or one JSON array.
func printStatus(w io.Writer, list []targetStatus, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(list)
	}
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "TARGET\tUNARRIVED\tWAITING\tATTEMPTS\tCALLBACKS FAILING\tDEAD\tOLDEST\tLAST ERROR")
	for _, s := range list {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%.1fs\t%s\n",
			s.Target, s.Unarrived, s.Waiting, s.Attempts, s.Callbacks, s.Dead, s.OldestSeconds, s.LastError)
	}
	return table.Flush()
}
