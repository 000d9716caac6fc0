package main

import (
	"fmt"
	"slices"
)

const advance = "delivery/pgstore/sql/watermark.sql"

// proving begins a claim.
const proving = "\tif limits.Watermark {\n\t\ts.sql.Prove.Queue(batch, pg.Args{\"relation\": s.events, \"apart\": max(1, limits.Apart)}).\n\t\t\tQueryRow(func(row pgx.Row) error { return row.Scan(&c.Watermark.Safe, &c.Watermark.Highest, &c.Advance, nil) })\n\t}\n"

// The stress cannot notice these: it delivers in the order of partitions, restarts no server, and waits as long as it takes.
const (
	cursorByStream      = "cursor-by-stream"
	recoveredIgnored    = "recovered-ignored"
	preparedNotFollowed = "prepared-not-followed"
)

// stress is enough rows for each of these to lose some, every time.
var stress = command{pkg: "delivery/loop", run: "^TestStrictOrderUnderStress$", env: "POSTRIDER_STRESS_ROWS=4000"}

// missing matches the stress's complaint about rows passed over: they wait below the cursor for ever.
const missing = `waited in vain for 0 from SELECT count\(\*\) FROM outbox|rows turned up below the cursor|[1-9][0-9]* lost|[1-9][0-9]* out of order`

// snapshotProof makes the watermark rely on snapshots: the highest sequence at the candidate's note counts as decided once
// no transaction below that bound runs any more. Unlisted names the writer that it overlooks.
func snapshotProof(name, breaks, bound, unlisted string) mutant {
	return mutant{
		name: name, promise: "P1", breaks: breaks,
		test: command{pkg: "delivery/loop", run: "^TestTheWatermarkStaysBelowAWriterThatNoSnapshotLists$/^" + unlisted + "$"}, says: "the watermark is at [0-9]+ while a writer",
		edits: []edit{
			{
				advance,
				"SELECT coalesce(array_agg(DISTINCT l.virtualtransaction), '{}') AS holders,",
				"SELECT ARRAY[" + bound + "::text] AS holders,",
			},
			{
				advance,
				"coalesce(bool_or(l.virtualtransaction LIKE '-1/%'), false) AS recovered",
				"coalesce(bool_or(false), false) AS recovered",
			},
			{
				advance,
				"ARRAY(SELECT unnest(s.holders) INTERSECT SELECT unnest(w.holders)) AS still",
				"ARRAY(SELECT b FROM unnest(s.holders) AS b WHERE pg_snapshot_xmin(pg_current_snapshot()) < b::xid8) AS still",
			},
		},
	}
}

// underStress returns the mutants that break strict order, each with the stress of so many rows.
func underStress(rows int) []mutant {
	var all []mutant
	for _, m := range watermark() {
		if !slices.Contains([]string{cursorByStream, recoveredIgnored, preparedNotFollowed}, m.name) {
			m.test, m.says = stress, missing
			m.test.env = fmt.Sprintf("POSTRIDER_STRESS_ROWS=%d", rows)
			all = append(all, m)
		}
	}
	return all
}

// watermark returns the ways to skip late commits.
func watermark() []mutant {
	return []mutant{
		{
			name: "naive-cursor", promise: "P1", breaks: "the highest visible sequence is taken for safe", test: stress, says: missing,
			edits: []edit{{advance, "WHEN p.writers = '{}'  ", "WHEN true              "}},
		},
		{
			name: "gap-taken-for-whole", promise: "P1", breaks: "what is visible is taken for all that there is", test: command{pkg: "delivery/loop", run: "^TestWhatIsWholeIsDecided$"},
			says:  "proven up to [0-9]+, want ",
			edits: []edit{{advance, "e.sequence <= s.highest) >= s.highest - s.known", "e.sequence <= s.highest) >= 1"}},
		},
		{
			name: "proofs-shared", promise: "P1", breaks: "what one outbox has proven in a session is taken for another's",
			test: command{pkg: "delivery/loop", run: "^TestOutboxesInOneSessionProveForThemselves$"}, says: "the other outbox is proven up to [1-9]",
			edits: []edit{{"delivery/pgstore/store.go", `[]byte(schema+" "+columns.Relation)`, `[]byte("")`}},
		},
		snapshotProof("snapshot-xmax", "safe when xmin has reached the candidate's xmax", "pg_snapshot_xmax(pg_current_snapshot())",
			"above_the_snapshot"),
		snapshotProof("snapshot-own-xid", "safe when xmin has passed the reader's own xid", "pg_current_xact_id()",
			"without_a_transaction_id"),
		{
			name: "rows-before-check", promise: "P1", breaks: "rows are read with the look for writers, not after it",
			test: command{pkg: "delivery/loop", run: "^TestACommitAmidALookIsNotPassedOver$"}, says: `stored .*, want `,
			edits: []edit{
				{"delivery/pgstore/claim.go", proving, ""},
				{"delivery/pgstore/claim.go", "limits.Watermark,\n\t\t}", "false,\n\t\t}"},
				{claimFile, "mine.after\n            AND r.global_sequence <= " + decided, "mine.after\n            AND r.global_sequence <= (SELECT CASE WHEN @proven::boolean AND false THEN 0::bigint ELSE @up_to END)"},
				{"delivery/pgstore/claim.go", "\ts.sql.Server.Queue(batch,", proving + "\ts.sql.Server.Queue(batch,"},
				{
					"delivery/pgstore/claim.go", "\tif !policy.Passes() {\n\t\tparked = dueOnly(",
					"\tready = slices.DeleteFunc(ready, func(m delivery.Message) bool { return limits.Watermark && m.Sequence > c.Watermark.Safe })\n\tif !policy.Passes() {\n\t\tparked = dueOnly(",
				},
			},
		},
		{
			name: "prepared-ignored", promise: "P1", breaks: "prepared transactions are no writers",
			test: command{pkg: "delivery/loop", run: "^TestTheWatermarkStaysBelowAPreparedTransaction$"}, says: "the watermark is at [0-9]+ while a writer",
			edits: []edit{{advance, "AND l.pid IS DISTINCT FROM pg_backend_pid()),", "AND l.pid <> pg_backend_pid()),"}},
		},
		{
			name: recoveredIgnored, promise: "P1", breaks: "a prepared transaction that a restart gave another name is taken for ended",
			test: command{pkg: "delivery/loop", run: "^TestAPreparedTransactionOutlivesTheServer$"}, says: "the watermark is at [0-9]+ while a writer",
			edits: []edit{{advance, "l.virtualtransaction LIKE '-1/%'), false) AS recovered", "false), false) AS recovered"}},
		},
		{
			name: preparedNotFollowed, promise: "P8", breaks: "nothing passes a gap while any transaction is prepared",
			test: command{pkg: "delivery/loop", run: "^TestPreparedTransactionsAreFollowedOneByOne$"}, says: "the watermark is at [0-9]+, want",
			edits: []edit{{advance, "l.virtualtransaction LIKE '-1/%'), false) AS recovered", "l.pid IS NULL), false) AS recovered"}},
		},
		{
			name: cursorByStream, promise: "P1", breaks: "ordering stream claims above a cursor",
			test: command{pkg: "delivery/loop", run: "^TestALateCommitIsNotSkipped$"}, says: `waited in vain for 2 from .*'published'`,
			edits: []edit{{"delivery/loop/state.go", "if r.cfg.Ordering == delivery.OrderPartition && (time.Since(", "if (time.Since("}},
		},
	}
}
