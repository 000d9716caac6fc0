package main

// forgotten returns the ways to keep quiet about events that a database has forgotten, or to cry for nothing.
func forgotten() []mutant {
	return []mutant{
		{
			name: "forgotten-look-proves-idleness", promise: "P8", breaks: "a look that fails over one partition ends what is said of all, and counts as a sweep",
			test: command{pkg: "delivery/loop", run: "^TestALookThatFindsOnePartitionForgottenProvesNothing$"}, says: "the board says <nil>",
			edits: []edit{{"delivery/loop/take.go", "\treturn errTakenAnew\n", "\treturn nil\n"}},
		},
		{
			name: "repaired-beside-healers", promise: "P4", breaks: "what workers put back into a stream made anew, while gaps are repaired, is queued once more",
			test: command{pkg: "delivery/ops/gaps", run: "^TestWhatWorkersHealedMeanwhileIsNotRepaired$"}, says: "want none and 190",
			edits: []edit{{"delivery/ops/gaps/repair.go", "again := at.Time.After(was.at) || latest", "again := false && at.Time.After(was.at) || false && latest"}},
		},
		{
			name: "named-by-another", promise: "P4", breaks: "an event is taken for the forgotten one that had its sequence, and published twice",
			test: command{pkg: "delivery/loop", run: "^TestAnEventIsNotTakenForTheForgottenOneOfItsSequence$"}, says: `the stream holds .1 2 2 3 2.`,
			edits: []edit{{"delivery/loop/take.go", "case f.Event.Valid && delivery.IdentityOf(f.Event.UUID) == d.Identity:", "case false:"}},
		},
		{
			name: "mark-vouches-for-none", promise: "P4", breaks: "a mark is made although one before it was given up",
			test: command{pkg: "delivery/loop", run: "^TestNoMarkVouchesForOneThatWasGivenUp$"}, says: "waited in vain for 15",
			edits: []edit{{"delivery/loop/mailbox.go", "m.revision++ // what", "// what"}},
		},
		{
			name: "stale-goes-on", promise: "P8", breaks: "what shows while a partition is under way has it taken anew never",
			test: command{pkg: "delivery/loop", run: "^TestWhatMayBeWrongIsTakenAnew$"}, says: "it is not taken anew",
			edits: []edit{{"delivery/loop/state.go", "if f.retaking || f.state == taking && !well {", "if f.state == taking && !well {"}},
		},
		{
			name: "healed-before-compared", promise: "P8", breaks: "what a lost stream has queued again hides that the database has forgotten events",
			test: command{pkg: "delivery/loop", run: "^TestForgottenEventsAreToldBehindALostStream$"}, says: "it was counted 0 times",
			edits: []edit{{"delivery/loop/take.go", "t.last, err = t.compare(ctx, t.standing.Delivered, t.standing.Kept)", "t.last = nil"}},
		},
		{
			name: "row-put-back-knows-nothing", promise: "P1", breaks: "a partition whose row was deleted and put back does not notice what the stream lost",
			test: command{pkg: "delivery/loop", run: "^TestARowThatWasPutBackKnowsTheLoss$"}, says: "partitions noticed their loss",
			edits: []edit{{"lease/sql/leases.sql", "coalesce(b.fence_sequence, h.known, 0), coalesce(b.stream_sequence, h.known, 0)", "coalesce(b.fence_sequence, 0), coalesce(b.stream_sequence, 0)"}},
		},
		{
			name: "missing-below-highest", promise: "P8", breaks: "a failover that forgets a few published events raises no alarm",
			test: command{pkg: "delivery/loop", run: "^TestForgottenEventsAreTold$"}, says: "it was counted 0 times, want 1",
			edits: []edit{{
				"delivery/pgstore/sql/takeover.sql", "p.fence_sequence < @record::bigint THEN true",
				"p.fence_sequence < @record::bigint THEN n.sequence > (SELECT coalesce(max(h.sequence), 0) FROM {events} AS h)",
			}},
		},
		{
			name: "removed-is-forgotten", promise: "P8", breaks: "events that were removed on purpose raise an alarm",
			test: command{pkg: "delivery/loop", run: "^TestForgottenEventsAreTold$"}, says: "it was counted 1 times, want 0",
			edits: []edit{{"delivery/pgstore/sql/takeover.sql", "WHEN p.fence_sequence = @record::bigint ", "WHEN false "}},
		},
		{
			name: "loss-told-once", promise: "P8", breaks: "a second failover that forgets goes untold",
			test: command{pkg: "delivery/loop", run: "^TestForgottenEventsAreTold$"}, says: "the next loss was counted 0 times",
			edits: []edit{{"delivery/pgstore/sql/takeover.sql", "s.generation <= @era::int", "s.regressed IS NULL AND s.generation <= @era::int"}},
		},
	}
}

// movedServers returns the ways to miss that another server answers, or one that was restarted or has lost its last commits.
func movedServers() []mutant {
	return []mutant{
		{
			name: "server-not-compared", promise: "P8", breaks: "a worker that lives through a failover does not look what was forgotten",
			test: command{pkg: "delivery/loop", run: "^TestALivingWorkerLooksWhatAnotherServerForgot$"}, says: "waited in vain",
			edits: []edit{{"delivery/pgstore/sql/takeover.sql", " AND l.taken_on = pg_postmaster_start_time() THEN", " THEN"}},
		},
		{
			name: "failover-before-the-first-claim", promise: "P8", breaks: "a failover between a worker's first takeover and its first claim goes unnoticed",
			test: command{pkg: "delivery/loop", run: "^TestAFailoverBeforeTheFirstClaimIsNoticed$"}, says: "waited in vain",
			edits: []edit{{"delivery/pgstore/sql/claim.sql", "SELECT 1 /\n         -- include: as_left\n                AS one", "SELECT 1 AS one"}},
		},
		{
			name: "takeover-without-a-name", promise: "P4", breaks: "what a worker knew before a takeover counts behind it",
			test: command{pkg: "delivery/loop", run: "^TestClaimsAndMarksCompareTheRow$"}, says: "behind another takeover: <nil>",
			edits: []edit{{"delivery/pgstore/takeover.go", "1 + rand.Int64N(math.MaxInt64>>1)", "1 + 0*rand.Int64N(math.MaxInt64>>1)"}},
		},
		{
			name: "marks-are-not-counted", promise: "P4", breaks: "a mark leaves the row as it was, so that a forgotten one does not show",
			test: command{pkg: "delivery/loop", run: "^TestClaimsAndMarksCompareTheRow$"}, says: "behind two marks: <nil>",
			edits: []edit{{"delivery/pgstore/sql/mark.sql", "SET revision        = locked.revision + 1,", "SET revision        = locked.revision,"}},
		},
		{
			name: "mark-is-not-made-again", promise: "P4", breaks: "a mark whose answer was lost is not known for made",
			test: command{pkg: "delivery/loop", run: "^TestClaimsAndMarksCompareTheRow$"}, says: "with a mark that is under way: ",
			edits: []edit{{"delivery/pgstore/sql/takeover.sql", "BETWEEN mine.revision AND mine.revision + 1", "BETWEEN mine.revision AND mine.revision"}},
		},
		{
			name: "reported-loss-hides-marks", promise: "P4", breaks: "behind a loss that was only reported, marks that a crash took back go unnoticed",
			test: command{pkg: "delivery/loop", run: "^TestALossThatIsOnlyReportedHidesNoMark$"}, says: "stored .*, want ",
			edits: []edit{{"delivery/pgstore/sql/heal.sql", "SET fence_sequence  = 0,\n       stream_sequence = 0", "SET stream_sequence = 0"}},
		},
		{
			name: "healing-forgotten", promise: "P1", breaks: "lost messages that were queued again before a failover which forgot that never come, where another process takes over",
			test: command{pkg: "delivery/loop", run: "^TestAForgottenHealingIsMadeAgain$"}, says: "waited in vain for 3",
			edits: []edit{{"delivery/publisher.go", "is && i >= 0", "false && i >= 0"}},
		},
		{
			name: "older-copy-heals-all", promise: "P4", breaks: "a stream restored from an older copy has everything published again",
			test: command{pkg: "delivery", run: "^TestALossShowsByTheLifeOfTheRecords$"}, says: "an older copy",
			edits: []edit{{"delivery/publisher.go", " && LifeNumber(s.Lives[i].ID) >= LifeNumber(known.Life); i--", "; i--"}},
		},
		{
			name: "healing-without-end", promise: "P4", breaks: "a failover that forgot nothing has what came since the last loss queued again",
			test: command{pkg: "delivery/loop", run: "^TestAForgottenHealingIsMadeAgain$"}, says: "batches are lost",
			edits: []edit{{"delivery/pgstore/sql/heal.sql", "stream_life     = @life,\n              updated_at      = clock_timestamp()\n         FROM held", "stream_life     = coalesce(nullif(p.stream_life, ''), @life),\n              updated_at      = clock_timestamp()\n         FROM held"}},
		},
		{
			name: "events-of-any-server", promise: "P1, P2", breaks: "events are read from another server than gave out the claim",
			test: command{pkg: "delivery/loop", run: "^TestEventsAreOfTheServerThatGaveThemOut$"}, says: "the events are asked of the server",
			edits: []edit{{"delivery/loop/publish.go", "Rehydrate(ctx, found.Server,", "Rehydrate(ctx, time.Time{},"}},
		},
		{
			name: "once-ends-amid-a-takeover", promise: "P1", breaks: "a relay that runs once ends while what a look had to drop waits for a takeover",
			test: command{pkg: "delivery/loop", run: "^TestOnceDeliversWhatALookHadToDrop$"}, says: "2 rows are left",
			edits: []edit{{"delivery/loop/loop.go", "if once && err == nil && l.found == 0", "if once && (err == nil || true) && l.found == 0"}},
		},
		{
			name: "any-server-reads", promise: "P1, P2", breaks: "a server that may have forgotten the claim reads its events",
			test: command{pkg: "delivery/loop", run: "^TestRehydrationAsksTheServerOfTheClaim$"}, says: "one that started before",
			edits: []edit{{"delivery/pgstore/sql/events.sql", "@server::timestamptz THEN 0 ELSE 1", "@server::timestamptz THEN 1 ELSE 1"}},
		},
		{
			name: "mark-behind-forgotten", promise: "P4", breaks: "a mark is made behind one that the database has forgotten",
			test: command{pkg: "delivery/loop", run: "^TestAMarkIsNotMadeBehindOneThatWasForgotten$"}, says: "stored .*, want ",
			edits: []edit{{"delivery/pgstore/sql/takeover.sql", "l.revision BETWEEN mine.revision AND mine.revision + 1 AND", "l.revision > 0 AND"}},
		},
		{
			name: "park-taken-back", promise: "P2", breaks: "a park that a crash took back goes unnoticed",
			test: command{pkg: "delivery/loop", run: "^TestAParkThatCameBackHoldsItsStream$"}, says: "passed what had failed",
			edits: []edit{{"delivery/pgstore/sql/claim.sql", "SELECT 1 /\n         -- include: as_left\n                AS one", "SELECT 1 AS one"}},
		},
		{
			name: "mark-of-another-server", promise: "P1", breaks: "a mark that outlives a failover takes another event for the one that it names",
			test: command{pkg: "delivery/loop", run: "^TestAMarkOfAnotherServerIsNotMade$"}, says: "stored are \\[1\\]",
			edits: []edit{{"delivery/pgstore/sql/mark.sql", "SELECT 1 /\n                -- include: as_left\n                       AS one", "SELECT 1 AS one"}},
		},
	}
}

// consumers returns the ways to lose a consumer's messages, or to stall it.
func consumers() []mutant {
	return []mutant{
		{
			name: "repair-leaves-what-was-told", promise: "projection", breaks: "a repair of a stream that was told of a forgotten event leaves it waiting for that",
			test: command{pkg: "projection", run: "^TestGapsAreFoundAndRepaired$/^told_of_what_was_forgotten$"}, says: "gaps_test.go",
			edits: []edit{{"projection/repair.go", "if at.wanted > at.applied {", "if false {"}},
		},
		{
			name: "position-not-compared", promise: "P1", breaks: "a reader that lives through a failover passes over messages whose effects the database has forgotten",
			test: command{pkg: "inbox", run: "^TestWhatTheDatabaseForgotIsDoneAgain$/^the_lane_goes_on$"}, says: "SELECT count.* FROM effects",
			edits: []edit{{"inbox/sql/lanes.sql", "AND position >= @known::bigint\n\n-- query: Begin", "AND @known::bigint >= 0\n\n-- query: Begin"}},
		},
		{
			name: "idle-position-not-compared", promise: "P1", breaks: "a reader without messages does not see that the database has forgotten its position",
			test: command{pkg: "inbox", run: "^TestWhatTheDatabaseForgotIsDoneAgain$/^the_lane_has_nothing$"}, says: "SELECT count.* FROM effects",
			edits: []edit{{"inbox/member.go", "|| positions[l.number] < known {", "|| positions[l.number]+known < known {"}},
		},
		{
			name: "inbox-lane-of-nobody", promise: "P1", breaks: "lanes are read by nobody after their database forgot who took them",
			test: command{pkg: "inbox", run: "^TestLanesThatNobodyKnowsAreRead$"}, says: "SELECT count.* FROM effects",
			edits: []edit{ // either of the two is enough
				{"inbox/sql/lanes.sql", "ORDER BY f.lane FOR NO KEY UPDATE SKIP LOCKED) AS strange", "ORDER BY f.lane LIMIT 0 FOR NO KEY UPDATE SKIP LOCKED) AS strange"},
				{"inbox/sql/lanes.sql", "AS h (lane, epoch) ON h.lane = f.lane AND h.epoch = f.epoch\n", "AS h (lane, epoch) ON (h.lane = f.lane) IS NOT NULL\n"},
			},
		},
		{
			name: "inbox-empty-place-proves", promise: "P1", breaks: "events are passed over when the stream lost its end and workers removed a record",
			test: command{pkg: "inbox", run: "^TestAStreamThatLostItsEnd$/^and_workers_remove_their_records$"}, says: "SELECT count.* FROM effects",
			edits: []edit{{"inbox/lost.go", "case stored.IsZero():\n\t\treturn unclear, nil", "case stored.IsZero():\n\t\treturn holds, nil"}},
		},
		{
			name: "inbox-believes-clocks", promise: "P1", breaks: "events are passed over when a broker was restored whose clock is behind",
			test: command{pkg: "inbox", run: "^TestABrokerThatWasRestoredWithAClockBehind$"}, says: "SELECT count.* FROM effects",
			edits: []edit{{"inbox/lost.go", "m.at != 0 && !start.After(server)", "m.at != 0"}},
		},
		{
			name: "inbox-parks-nothing", promise: "P1", breaks: "a message that failed is lost when the sequence of parked messages stands behind them",
			test: command{pkg: "inbox", run: "^TestASequenceBehindItsTable$"}, says: "want an error with its cure",
			edits: []edit{{"inbox/migrations/00001_inbox.sql", "ON CONFLICT (stream_key, version, event_id) DO NOTHING", "ON CONFLICT DO NOTHING"}},
		},
		{
			name: "pool-stays-with-a-standby", promise: "P8", breaks: "a pool that was led to a standby in a failover stays there for an hour",
			test: command{pkg: "internal/pg", run: "^TestAPoolDoesNotStayWithAStandby$"}, says: "the pool comes to the primary",
			edits: []edit{{"internal/pg/pool.go", "&& !onStandby(conn) }", "&& (true || !onStandby(conn)) }"}},
		},
		{
			name: "pass-that-did-not-ask", promise: "P1", breaks: "a lane joins a pass that has not asked whether the stream still holds what was read up to its position",
			test: command{pkg: "inbox", run: "^TestAStreamThatLostItsEnd$/^and_a_failover_forgets_that$"}, says: "SELECT count.* FROM effects",
			edits: []edit{{"inbox/member.go", "if len(taken) > 0 {", "if len(taken) > 0 && r.endPass == nil {"}},
		},
		{
			name: "handler-passes-its-end", promise: "P7", breaks: "a handler that passes over the end of its time has its lane stand for ever",
			test: command{pkg: "inbox", run: "^TestAHandlerHasSoMuchTime$"}, says: "record messages: conn closed",
			edits: []edit{{"inbox/handler.go", "case err == nil && ctx.Err() == nil && limited.Err() != nil:", "case false:"}},
		},
		{
			name: "repair-erases-what-was-dropped", promise: "projection", breaks: "a repair deletes the rows of a stream whose events were dropped",
			test: command{pkg: "projection", run: "^TestAProjectionOutlastsADroppedPart$"}, says: "FROM projection.entries",
			edits: []edit{{"projection/repair.go", "if dropped[g.Stream] {", "if dropped[g.Stream] && g.Stream == \"\" {"}},
		},
	}
}
