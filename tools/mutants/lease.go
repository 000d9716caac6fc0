package main

// stale are the tests of a worker's writes to the outbox under another's lease.
var stale = command{pkg: "delivery/loop", run: "^TestEveryWriteComparesOwnerAndEpoch$"}

// leases are the statements about them.
const (
	leases = "lease/sql/leases.sql"
	tables = "outbox/schema/migrations/00001_tables.sql"
)

// older are the tests of its writes to the leases.
var older = command{pkg: "lease", run: "^TestAnOlderLeaseOfTheSameOwnerChangesNothing$"}

// withoutEpoch leaves the epoch out of a comparison.
func withoutEpoch(name string, test command, says string, edits ...edit) mutant {
	return mutant{name: name + "-without-epoch", promise: "P3", breaks: name + " compares the owner alone", test: test, says: says, edits: edits}
}

// database returns the ways to let two owners write.
func database() []mutant {
	const (
		mark     = "delivery/pgstore/sql/mark.sql"
		park     = "delivery/pgstore/sql/park.sql"
		takeover = "delivery/pgstore/sql/takeover.sql"
		markRow  = "l.lease_owner IS NOT DISTINCT FROM @owner AND l.lease_epoch = mine.epoch"
		ownerRow = "f.lease_owner IS NOT DISTINCT FROM @owner AND f.lease_epoch = mine.epoch"
		ownerSet = "AND p.lease_owner IS NOT DISTINCT FROM @owner AND p.lease_epoch = locked.epoch"
		takes    = "updated_at = clock_timestamp()\n WHERE partition_key = @partition AND lease_owner IS NOT DISTINCT FROM @owner AND "
		anyOwner = "(true OR @owner::uuid IS NULL)"
		inOrder  = "                ORDER BY f.partition_key\n                  FOR NO KEY UPDATE OF f"
	)
	return []mutant{
		{
			name: "mark-compares-nothing", promise: "P3", breaks: "marks compare neither owner nor epoch",
			test: command{pkg: "delivery/loop", run: "^TestAStaleOwnersMarksAreRefused$"}, says: "the stale lease was not ended",
			edits: []edit{{mark, markRow, anyOwner}, {mark, ownerSet, "AND " + anyOwner}},
		},
		withoutEpoch("mark", stale, "the epoch changed, and mark is written",
			edit{mark, markRow, "l.lease_owner IS NOT DISTINCT FROM @owner"}, edit{mark, ownerSet, "AND p.lease_owner IS NOT DISTINCT FROM @owner"}),
		withoutEpoch("bulk-mark", stale, "the epoch changed, and bulk mark is written",
			edit{mark, markRow, "l.lease_owner IS NOT DISTINCT FROM @owner"}, edit{mark, ownerSet, "AND p.lease_owner IS NOT DISTINCT FROM @owner"}),
		{
			name: "range-not-compared", promise: "P1", breaks: "a row that came into the range of a published batch goes with it",
			test: command{pkg: "delivery/loop", run: "^TestAMarkOfARangeTakesItsOwnRowsAlone$"}, says: "outbox gives [23], want 4",
			edits: []edit{{"delivery/pgstore/sql/mark.sql", "CASE WHEN found.sequences = (@sequences::bigint[])[rows.low:rows.high] THEN 1 ELSE 0 END", "1"}},
		},
		{
			name: "range-counted", promise: "P1", breaks: "a row that came into the range of a published batch goes instead of one that left it",
			test: command{pkg: "delivery/loop", run: "^TestAMarkOfARangeTakesItsOwnRowsAlone$"}, says: "outbox gives [23], want 4",
			edits: []edit{{"delivery/pgstore/sql/mark.sql", "found.sequences = (@sequences::bigint[])[rows.low:rows.high]", "cardinality(found.sequences) = rows.high - rows.low + 1"}},
		},
		withoutEpoch("park", stale, "the epoch changed, and park is written",
			edit{park, ownerRow, "f.lease_owner IS NOT DISTINCT FROM @owner"}, edit{park, ownerSet, "AND p.lease_owner IS NOT DISTINCT FROM @owner"}),
		withoutEpoch("promote", stale, "the epoch changed, and promote is written",
			edit{park, "AND l.lease_epoch = held.epoch", "AND held.epoch IS NOT NULL"}),
		withoutEpoch("carrying", stale, "the epoch changed, and carrying is written",
			edit{takeover, "AND l.lease_epoch = mine.epoch\n         ORDER", "AND mine.epoch IS NOT NULL\n         ORDER"}),
		withoutEpoch("pause-over", stale, "the epoch changed, and pause over is written",
			edit{takeover, "AND lease_epoch = @epoch AND crashes", "AND @epoch::bigint IS NOT NULL AND crashes"}),
		withoutEpoch("take", stale, "the epoch changed, and take is written",
			edit{takeover, "AND lease_epoch = @epoch\nRETURNING fence_sequence", "AND @epoch::bigint IS NOT NULL\nRETURNING fence_sequence"}),
		withoutEpoch("heal", stale, "the epoch changed, and heal is written",
			edit{"delivery/pgstore/sql/heal.sql", "AND p.lease_epoch = @epoch),\n     page AS MATERIALIZED (\n       SELECT d.id, d.first", "AND @epoch::bigint IS NOT NULL),\n     page AS MATERIALIZED (\n       SELECT d.id, d.first"}),
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
			name: "row-not-compared", promise: "P4", breaks: "marks that a crash took back go unnoticed",
			test: command{pkg: "delivery/loop", run: "^TestMarksThatCameBackArePublishedOnce$"}, says: "[0-9]+ messages are stored, want 11",
			edits: []edit{{"delivery/pgstore/sql/takeover.sql", "l.revision BETWEEN mine.revision AND mine.revision + 1 AND", "l.revision > 0 AND"}},
		},
		{
			name: "watermark-held", promise: "P1", breaks: "a worker that stops amid a claim keeps the others from moving the watermark",
			test: command{pkg: "delivery/loop", run: "^TestALookThatStopsHoldsNoWatermark$"}, says: "could not obtain lock",
			edits: []edit{{"delivery/pgstore/claim.go", "s.sql.Prove.Queue(", "s.sql.Advance.Queue("}},
		},
	}
}

// durability returns the ways to show queued rows before they are on disk.
func durability() []mutant {
	return []mutant{
		{
			name: "commits-in-memory", promise: "P1, P4", breaks: "rows are published before their commit is on disk",
			test: command{pkg: "outbox/schema", run: "^TestWhatIsQueuedIsDurableWhenItIsVisible$"}, says: "an append: the commit is not on disk",
			edits: []edit{{tables, "set_config('synchronous_commit', 'local', true)", "set_config('synchronous_commit', 'off', true)"}},
		},
		{
			name: "durable-too-soon", promise: "P1, P4", breaks: "a producer switches synchronous commits off behind the append",
			test: command{pkg: "outbox/schema", run: "^TestWhatIsQueuedIsDurableWhenItIsVisible$"}, says: "switched off behind an append: the commit is not on disk",
			edits: []edit{{tables, "AFTER INSERT ON {schema}.outbox_ready\n    DEFERRABLE INITIALLY DEFERRED", "AFTER INSERT ON {schema}.outbox_ready\n    DEFERRABLE INITIALLY IMMEDIATE"}},
		},
		{
			name: "durable-for-most", promise: "P1, P4", breaks: "in the role of a replica rows are queued by commits in memory",
			test: command{pkg: "outbox/schema", run: "^TestWhatIsQueuedIsDurableWhenItIsVisible$"}, says: "in the role of a replica: the commit is not on disk",
			edits: []edit{{tables, "ALTER TABLE {schema}.outbox_ready ENABLE ALWAYS TRIGGER outbox_durable;\n", ""}},
		},
	}
}

// clocks returns the ways to believe the database's clock.
func clocks() []mutant {
	return []mutant{
		{
			name: "creation-is-a-permission", promise: "P2", breaks: "a clock that steps back puts off what nobody scheduled",
			test: command{pkg: "delivery/loop", run: "^TestTheOrderOfAPartitionNeedsNoClock$"}, says: "stored \\[|waited in vain",
			edits: []edit{
				{claimFile, "o.scheduled_for IS NULL OR o.available_at <= clock_timestamp() AS due", "o.available_at <= clock_timestamp() AS due"},
				{claimFile, "(VALUES (false, interval '0'), (true, @longest::interval))", "(VALUES (false, interval '1 day'), (true, @longest::interval))"},
			},
		},
		{
			name: "revival-waits-for-the-clock", promise: "P2", breaks: "what begins anew waits until a clock that stepped back is there again",
			test: command{pkg: "delivery/loop", run: "^TestNothingThatNobodyScheduledWaitsForTheClock$"}, says: "waited in vain",
			edits: []edit{{claimFile, "(VALUES (false, interval '0'), (true, @longest::interval))", "(VALUES (false, interval '1 day'), (true, @longest::interval))"}},
		},
		{
			name: "retry-waits-for-the-clock", promise: "P5", breaks: "a retry waits until a clock that stepped back is there again",
			test: command{pkg: "delivery/loop", run: "^TestNothingThatNobodyScheduledWaitsForTheClock$"}, says: "waited in vain",
			edits: []edit{{claimFile, "(true, @longest::interval))", "(true, @longest::interval * 100))"}},
		},
		{
			name: "dead-owner-behind-the-clock", promise: "P5", breaks: "a dead worker keeps its partitions while the database's clock is behind",
			test: command{pkg: "lease", run: "^TestADeadOwnersLeaseIsWatchedBehindAClockThatSteppedBack$"}, says: "keeps its lease",
			edits: []edit{{"lease/store.go", "if r.Ahead && round.Same", "if r.Ahead && r.Epoch == 0 && round.Same"}},
		},
		{
			name: "watched-without-patience", promise: "P3", breaks: "a clock that steps back takes the living their partitions",
			test: command{pkg: "lease", run: "^TestADeadOwnersLeaseIsWatchedBehindAClockThatSteppedBack$"}, says: "though a lease lasts",
			edits: []edit{{"lease/store.go", "silence{r.Epoch, r.Until}) >= *ttl {", "silence{r.Epoch, r.Until}) >= 0 {"}},
		},
		{
			name: "renewed-is-silent", promise: "P3", breaks: "a lease that was renewed since it was watched is taken",
			test: command{pkg: "lease", run: "^TestARenewedLeaseIsNotTakenForSilent$"}, says: "from one that lives",
			edits: []edit{{"lease/sql/leases.sql", "z.epoch = f.lease_epoch AND z.until = f.lease_until", "z.epoch = f.lease_epoch AND z.until IS NOT NULL"}},
		},
		{
			name: "small-steps-unnamed", promise: "P8", breaks: "a clock that steps by less than a second is not named",
			test: command{pkg: "coordinator", run: "^TestStepsOfTheDatabasesClock$"}, says: "0 steps, want 1",
			edits: []edit{{"coordinator/clock.go", "stepCounts = 10 * time.Millisecond", "stepCounts = time.Second"}},
		},
		{
			name: "dead-member-behind-the-clock", promise: "P5", breaks: "a dead worker stays a member while the database's clock is behind",
			test: command{pkg: "heartbeat", run: "^TestADeadMemberIsWatchedBehindAClockThatSteppedBack$"}, says: "stays a member",
			edits: []edit{{"heartbeat/store.go", "if round.Same(w.ID, w.HeartbeatUntil) >= *ttl {", "if w.PID < 0 {"}},
		},
		{
			name: "dead-reader-behind-the-clock", promise: "P1", breaks: "a dead reader keeps its lanes while the database's clock is behind",
			test: command{pkg: "inbox", run: "^TestADeadReadersLanesAreWatchedBehindAClockThatSteppedBack$"}, says: "did not become true|waiting for",
			edits: []edit{{"inbox/reader.go", "if round.Same(number, lane) >= lasts {", "if number < 0 {"}},
		},
	}
}

// neighbourClocks are those of projections, commands and inboxes.
func neighbourClocks() []mutant {
	return []mutant{
		{
			name: "projection-waits-for-the-clock", promise: "projection", breaks: "what was planned before the clock stepped back waits until it is there again",
			test: command{pkg: "projection", run: "^TestNoStreamWaitsForAClockThatSteppedBack$"}, says: "<> 'leased' gives 2",
			edits: []edit{{"projection/run.go", "if until == nil || round.Same(", "if until != nil && round.Same("}},
		},
		{
			name: "projection-takes-from-the-living", promise: "projection", breaks: "a clock that steps back takes the living their streams",
			test: command{pkg: "projection", run: "^TestNoStreamWaitsForAClockThatSteppedBack$"}, says: "was taken over after",
			edits: []edit{{"projection/run.go", "round.Same(stream, epoch) >= ttl {", "round.Same(stream, epoch) >= 0 {"}},
		},
		{
			name: "inbox-suspended-holds-all", promise: "P1", breaks: "a reader that is suspended while it looks at the stream keeps all others from reading",
			test: command{pkg: "inbox", run: "^TestASuspendedProcessKeepsNobodyFromReading$/^while_it_looks_at_the_stream$"}, says: "SELECT count.* FROM effects",
			edits: []edit{{"inbox/consumer.go", "if err := c.box.limitIdle(ctx, tx); err != nil {", "if err := ctx.Err(); err != nil {"}},
		},
		{
			name: "the-dead-forbid-to-be-alone", promise: "P5", breaks: "what the dead left before the clock stepped back keeps a worker without leasing out",
			test: command{pkg: "lease", run: "^TestAloneBehindAClockThatSteppedBack$"}, says: "beside the dead",
			edits: []edit{{"lease/sql/leases.sql", "THEN w.heartbeat_ttl END", "THEN NULL::interval END"}},
		},
		{
			name: "resize-by-the-clock", promise: "P2", breaks: "what was published before a resize is healed into the former partition after a clock stepped back",
			test: command{pkg: "delivery/loop", run: "^TestWhatWasPublishedBeforeAResizeIsHealed$/clock"}, says: "came back in partition",
			edits: []edit{
				{"delivery/pgstore/sql/heal.sql", "AND d.id > (SELECT coalesce(s.resized_delivery, 0) FROM", "AND d.published_at >= (SELECT coalesce(s.resized_at, '-infinity') FROM"},
				{"delivery/pgstore/sql/heal.sql", "ON d.id <= s.resized_delivery", "ON d.published_at < s.resized_at"},
			},
		},
		{
			name: "requeue-waits-for-the-clock", promise: "P5", breaks: "what died before the clock stepped back is not requeued until it is there again",
			test: command{pkg: "delivery/ops", run: "^TestAResizeBetweenTwoChunksIsTold$"}, says: "selection_test.go",
			edits: []edit{{"delivery/ops/sql/change.sql", "(o.dead_at IS NULL OR o.dead_at NOT BETWEEN @began AND clock_timestamp())", "(o.dead_at IS NULL OR o.dead_at <= @began)"}},
		},
		{
			name: "paused-by-the-wall-clock", promise: "P8", breaks: "a worker whose clock steps back takes what is broken for what flows",
			test: command{pkg: "delivery/loop", run: "^TestPausesAreMeasuredByTheMonotonicClock$"}, says: "without a monotonic clock",
			edits: []edit{{"delivery/loop/stats.go", "{ m.at.Store(&t) }", "{ t = t.Round(0); m.at.Store(&t) }"}},
		},
		{
			name: "rate-of-before-the-step", promise: "P8", breaks: "what was published before the clock stepped back is counted as published now",
			test: command{pkg: "delivery/loop", run: "^TestTheRateIsOfTheLastSeconds$"}, says: "400 events in ten seconds",
			edits: []edit{{"delivery/pgstore/sql/statistics.sql", "b.published_at <= (SELECT at FROM present)", "b.published_at < 'infinity'"}},
		},
		{
			name: "stalled-behind-the-clock", promise: "P8", breaks: "a transaction that holds all back is not named while the database's clock is behind",
			test: command{pkg: "delivery/loop", run: "^TestWhatHoldsTheWatermarkIsNamedBehindAClockThatSteppedBack$"}, says: "it waits for 0s",
			edits: []edit{{"delivery/pgstore/sql/watermark.sql", " OR n.candidate_at > clock_timestamp())", ")"}},
		},
		{
			name: "frozen-by-the-vanished", promise: "P5", breaks: "a machine that vanished keeps the outbox frozen behind a clock that stepped back",
			test: command{pkg: "lease", run: "^TestAFreezeEndsWithItsMachine$"}, says: "that the other side has vanished",
			edits: []edit{{"lease/sql/leases.sql", ", set_config('tcp_keepalives_idle', '15', true)", ""}},
		},
		{
			name: "inbox-waits-for-the-clock", promise: "P1", breaks: "what leads its stream now waits until a clock that stepped back is there again",
			test: command{pkg: "inbox", run: "^TestRetriesNeedNoClock$"}, says: "effects are",
			edits: []edit{{"inbox/migrations/00001_inbox.sql", "OR d.due_at > clock_timestamp() + make_interval(secs => longest)\n                    OR d.attempts = 0 AND d.begun = 0)", ")"}},
		},
	}
}
