package main

// stale are the tests of what a worker writes to the outbox under a lease that is another's.
var stale = command{pkg: "delivery", run: "^TestEveryWriteComparesOwnerAndEpoch$"}

// leases are the statements about them.
const leases = "lease/sql/leases.sql"

// older are those of what it writes to the leases.
var older = command{pkg: "lease", run: "^TestAnOlderLeaseOfTheSameOwnerChangesNothing$"}

// withoutEpoch leaves the epoch out of a comparison.
func withoutEpoch(name string, test command, says string, edits ...edit) mutant {
	return mutant{name: name + "-without-epoch", promise: "P3", breaks: name + " compares the owner alone", test: test, says: says, edits: edits}
}

// database is the ways to let two owners write.
func database() []mutant {
	const (
		mark     = "delivery/sql/mark.sql"
		park     = "delivery/sql/park.sql"
		takeover = "delivery/sql/takeover.sql"
		ownerRow = "f.lease_owner IS NOT DISTINCT FROM @owner AND f.lease_epoch = mine.epoch"
		ownerSet = "AND p.lease_owner IS NOT DISTINCT FROM @owner AND p.lease_epoch = locked.epoch"
		suspects = "updated_at = clock_timestamp()\n WHERE partition_key = @partition AND lease_owner IS NOT DISTINCT FROM @owner AND "
		anyOwner = "(true OR @owner::uuid IS NULL)"
		inOrder  = "                ORDER BY f.partition_key\n                  FOR NO KEY UPDATE OF f"
	)
	return []mutant{
		{
			name: "mark-compares-nothing", promise: "P3", breaks: "marks compare neither owner nor epoch",
			test: command{pkg: "delivery", run: "^TestAStaleOwnersMarksAreRefused$"}, says: "the stale lease was not ended",
			edits: []edit{{mark, ownerRow, anyOwner}, {mark, ownerSet, "AND " + anyOwner}},
		},
		withoutEpoch("mark", stale, "the epoch changed, and mark is written",
			edit{mark, ownerRow, "f.lease_owner IS NOT DISTINCT FROM @owner"}, edit{mark, ownerSet, "AND p.lease_owner IS NOT DISTINCT FROM @owner"}),
		withoutEpoch("bulk-mark", stale, "the epoch changed, and bulk mark is written",
			edit{mark, ownerRow, "f.lease_owner IS NOT DISTINCT FROM @owner"}, edit{mark, ownerSet, "AND p.lease_owner IS NOT DISTINCT FROM @owner"}),
		{
			name: "range-not-compared", promise: "P1", breaks: "a row that came into the range of a published batch goes with it",
			test: command{pkg: "delivery", run: "^TestAMarkOfARangeTakesItsOwnRowsAlone$"}, says: "outbox gives [23], want 4",
			edits: []edit{{"delivery/sql/mark.sql", "CASE WHEN found.sequences = (@sequences::bigint[])[rows.low:rows.high] THEN 1 ELSE 0 END", "1"}},
		},
		{
			name: "range-counted", promise: "P1", breaks: "a row that came into the range of a published batch goes instead of one that left it",
			test: command{pkg: "delivery", run: "^TestAMarkOfARangeTakesItsOwnRowsAlone$"}, says: "outbox gives [23], want 4",
			edits: []edit{{"delivery/sql/mark.sql", "found.sequences = (@sequences::bigint[])[rows.low:rows.high]", "cardinality(found.sequences) = rows.high - rows.low + 1"}},
		},
		withoutEpoch("park", stale, "the epoch changed, and park is written",
			edit{park, ownerRow, "f.lease_owner IS NOT DISTINCT FROM @owner"}, edit{park, ownerSet, "AND p.lease_owner IS NOT DISTINCT FROM @owner"}),
		withoutEpoch("promote", stale, "the epoch changed, and promote is written",
			edit{park, "AND l.lease_epoch = held.epoch", "AND held.epoch IS NOT NULL"}),
		withoutEpoch("suspect", stale, "the epoch changed, and suspect is written",
			edit{takeover, suspects + "lease_epoch = @epoch", suspects + "@epoch::bigint IS NOT NULL"}),
		withoutEpoch("heal", stale, "the epoch changed, and heal is written",
			edit{"delivery/sql/heal.sql", "AND p.lease_epoch = @epoch\n    RETURNING", "AND @epoch::bigint IS NOT NULL\n    RETURNING"}),
		withoutEpoch("raise", stale, "the epoch changed, and raise is written",
			edit{takeover, "AND lease_epoch = @epoch\n   AND lease_epoch < @known", "AND @epoch::bigint IS NOT NULL\n   AND lease_epoch < @known"}),
		withoutEpoch("unblock", stale, "the epoch changed, and unblock is written",
			edit{takeover, "AND l.lease_epoch = @epoch", "AND @epoch::bigint IS NOT NULL"}),
		withoutEpoch("renew", older, "want only partition 1",
			edit{leases, "AND f.lease_epoch = mine.epoch\n         ORDER", "AND mine.epoch IS NOT NULL\n         ORDER"}),
		withoutEpoch("renew-around", older, "want none renewed",
			edit{leases, "AND f.lease_epoch = mine.epoch\n" + inOrder + " SKIP LOCKED", "\n" + inOrder + " SKIP LOCKED"}),
		withoutEpoch("release", older, "released .*; want none",
			edit{leases, "AND f.lease_epoch = mine.epoch\n" + inOrder + ") AS held", "AND mine.epoch IS NOT NULL\n" + inOrder + ") AS held"}),
		{
			name: "epoch-not-raised", promise: "P3", breaks: "a new owner has its predecessor's epoch",
			test: command{pkg: "lease", run: "^TestEveryAcquisitionRaisesTheEpoch$"}, says: "epoch must rise",
			edits: []edit{{leases, "= @owner,\n              lease_epoch = p.lease_epoch + 1", "= @owner,\n              lease_epoch = p.lease_epoch"}},
		},
		{
			name: "session-not-compared", promise: "P4", breaks: "marks that a crash took back go unnoticed",
			test: command{pkg: "delivery", run: "^TestMarksThatCameBackArePublishedOnce$"}, says: "[0-9]+ messages are stored, want 11",
			edits: []edit{{"delivery/flow.go", "if session.Before(f.marked) ||", "if true || session.Before(f.marked) ||"}},
		},
		{
			name: "no-flush", promise: "P1, P4", breaks: "rows are published before their commit is durable",
			test: command{pkg: "delivery", run: "^TestRehydrationMakesDurableWhatWasRead$"}, says: "is not durable",
			edits: []edit{{"delivery/sql/events.sql", "CASE WHEN @position::text{unforced}", "CASE WHEN false AND @position::text{unforced}"}},
		},
		{
			name: "watermark-held", promise: "P1", breaks: "a worker that stops amid a claim keeps the others from moving the watermark",
			test: command{pkg: "delivery", run: "^TestALookThatStopsHoldsNoWatermark$"}, says: "could not obtain lock",
			edits: []edit{{"delivery/claim.go", "s.sql.Prove.Queue(", "s.sql.Advance.Queue("}},
		},
		{
			name: "no-flush-with-events", promise: "P1, P4", breaks: "rows whose events come with the claim are published before their commit is durable",
			test: command{pkg: "delivery", run: "^TestAClaimWithEventsMakesDurableWhatWasRead$"}, says: "is not durable",
			edits: []edit{{claimFile, "set_config('postrider.found', {position}, true)", "set_config('postrider.found', '0/0', true)"}},
		},
	}
}
