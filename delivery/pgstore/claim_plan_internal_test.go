package pgstore

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
)

// planNode is a node of an executed plan.
type planNode struct {
	Type  string  `json:"Node Type"`
	Loops float64 `json:"Actual Loops"`
	Rows  float64 `json:"Actual Rows"`
	Plans []planNode
}

// executed runs the statement as a session does that keeps its plans, with such values, and returns the plan.
func executed(t *testing.T, tx pgx.Tx, name string, query pg.Query, args pg.Args) planNode {
	t.Helper()
	var b pgx.Batch
	var values []string
	for _, value := range query.Queue(&b, args).Arguments {
		values = append(values, fmt.Sprint(value))
	}
	if _, err := tx.Exec(t.Context(), `PREPARE `+name+` AS `+query.Text); err != nil {
		t.Fatal(err)
	}
	var text []byte
	if err := tx.QueryRow(t.Context(), `EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE `+name+`(`+strings.Join(values, ", ")+`)`).Scan(&text); err != nil {
		t.Fatal(err)
	}
	var plans []struct{ Plan planNode }
	if err := json.Unmarshal(text, &plans); err != nil || len(plans) != 1 {
		t.Fatalf("%v: %s", err, text)
	}
	return plans[0].Plan
}

// looks counts how many rows all function scans returned together: the partitions that were asked for.
func (n planNode) looks() (rows float64) {
	for _, child := range n.Plans {
		rows += child.looks()
	}
	if n.Type == "Function Scan" {
		rows += n.Loops * n.Rows
	}
	return rows
}

// After a pause of everything PostgreSQL takes a partition that is not paused for the exception, and would go through
// all that were asked for once for each of them.
func TestAClaimGoesThroughThePartitionsOnce(t *testing.T) {
	t.Parallel()
	const partitions = 256
	store, pool := oldestStore(t, partitions)
	execute(t, pool, `UPDATE outbox_partitions SET paused_at = now()`, `ANALYZE outbox_partitions`, `UPDATE outbox_partitions SET paused_at = NULL, taken_on = pg_postmaster_start_time()`,
		`INSERT INTO outbox (global_sequence, partition_key, stream_id, parked) SELECT n, n % 256, 's', n % 2 = 0 FROM generate_series(1, 20) AS n`)
	list := func(value func(i int) int) string {
		values := make([]string, partitions)
		for i := range values {
			values[i] = strconv.Itoa(value(i))
		}
		return `'{` + strings.Join(values, ",") + `}'`
	}
	ids, zeros, most := list(func(i int) int { return i }), list(func(int) int { return 0 }), list(func(int) int { return 10 })
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if _, err := store.sql.Planning.Exec(t.Context(), tx, nil); err != nil {
			return err
		}
		args := pg.Args{
			"partitions": ids, "revisions": zeros, "after": zeros, "most": most, "total": 1000, "up_to": 1000,
			"passes": false, "skip_dead": false, "proven": false,
		}
		little := maps.Clone(args)
		little["payload"] = 1000
		for _, c := range []struct {
			name  string
			query pg.Query
			args  pg.Args
		}{
			{"claim_ready", store.sql.ClaimReady, args},
			{"claim_little", store.sql.ClaimLittle, little},
			{"claim_parked", store.sql.ClaimParked, pg.Args{"partitions": ids, "revisions": zeros, "most": most, "total": 1000, "up_to": 1000, "longest": "'5 minutes'", "proven": false, "skip_dead": false}},
			{"claim_due", store.sql.ClaimDue, pg.Args{"partitions": ids, "revisions": zeros, "most": most, "total": 1000, "up_to": 1000, "longest": "'5 minutes'", "proven": false}},
		} {
			looks := executed(t, tx, c.name, c.query, c.args).looks()
			if looks != partitions {
				t.Errorf("%s went through %v partitions, want %d", c.name, looks, partitions)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
