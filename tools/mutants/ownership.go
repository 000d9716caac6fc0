package main

// ownership returns the ways to tell people wrongly who had a partition.
func ownership() []mutant {
	told := command{pkg: "lease", run: "^TestHistoryTellsEveryChangeOfHands$"}
	return []mutant{
		{
			name: "acquisition-untold", promise: "P8", breaks: "nobody knows later who took a partition",
			test: told, says: "the history says",
			edits: []edit{{leases, "FROM taken AS t\n                GROUP BY 1, 2", "FROM taken AS t WHERE false\n                GROUP BY 1, 2"}},
		},
		{
			name: "release-untold", promise: "P8", breaks: "a worker that gave a partition back is told to have had it on",
			test: told, says: "the history says",
			edits: []edit{{leases, "HAVING count(*) > 0", "HAVING count(*) > 0 AND false"}},
		},
		{
			name: "takeover-told-as-handover", promise: "P8", breaks: "a worker that died is told to have given its partitions back",
			test: told, says: "the history says",
			edits: []edit{{leases, "THEN 'taken-over'", "THEN 'moved'"}},
		},
		{
			name: "ownership-unbounded", promise: "P6", breaks: "the history of ownership grows without a bound",
			test: command{pkg: "delivery/loop", run: "^TestTheSweeperDeletesOnlyWhatIsOver$"}, says: "7 changes of ownership",
			edits: []edit{{"delivery/pgstore/retention.go", "{s.store.sql.RetainOwnership, s.cfg.Ownership},", ""}},
		},
		{
			name: "marks-told-of-too-long", promise: "P8", breaks: "marks that failed are told of when the lease is lost",
			test: command{pkg: "delivery/loop", run: "^TestMarksOfALostLeaseAreNotToldOf$"}, says: "the board says",
			edits: []edit{{"delivery/loop/marker.go", "\t\tr.cfg.Board.Report(\"marks of \"+boardName(id), nil) // they are the heir's\n", ""}},
		},
		{
			name: "pause-told-of-too-long", promise: "P8", breaks: "a partition that pauses alone is told of when the lease is lost",
			test: command{pkg: "delivery/loop", run: "^TestAPauseEndsWithTheLease$"}, says: "the board says",
			edits: []edit{{"delivery/loop/relay.go", "\t\t\t\tr.resume(id) // whoever", "\t\t\t\t_ = id // whoever"}},
		},
		{
			name: "canary-overdue-for-ever", promise: "P8", breaks: "a canary that nothing has to deliver any more stays overdue",
			test: command{pkg: "worker", run: "^TestACanaryThatNeverComesIsForgotten$"}, says: "nothing brings it there",
			edits: []edit{{"worker/canary.go", "case err != nil || d.State.Queued():", "default:"}},
		},
		{
			name: "durable-by-ordering", promise: "P1", breaks: "with ordering stream nobody asks whether what is queued is durable",
			test: command{pkg: "delivery/pgstore", run: "^TestTheOrderOfStreamsNeedsDurabilityAlone$"}, says: "of streams whose events are not durable: <nil>",
			edits: []edit{{"delivery/pgstore/preconditions.go", "(o != delivery.OrderStream || v.anyOrder)", "o != delivery.OrderStream"}},
		},
		{
			name: "kept-over-a-failover", promise: "P1, P4", breaks: "what was kept of an event is published as the one that has its sequence after a failover",
			test: command{pkg: "delivery/loop", run: "^TestAnotherServersEventsAreReadAnew$"}, says: "it is kept for another server's",
			edits: []edit{{"delivery/loop/publish.go", "b.Server.UnixMicro()}", "0}"}},
		},
		{
			name: "records-for-each-subject", promise: "P4", breaks: "a stream that drops records of a subject is taken for fit",
			test: command{pkg: "delivery/natspub/streams", run: "^TestStreamsThatCannotBeFencedAreRefused$"}, says: "max_msgs_per_subject 100000: <nil>",
			edits: []edit{{"delivery/natspub/streams/fitness.go", "case s.MaxMsgsPerSubject > 0:", "case s.DiscardNewPerSubject:"}},
		},
		{
			name: "positions-of-the-old-stream", promise: "P4", breaks: "where losses are reported an heir looks in a new stream behind positions of the old one",
			test: command{pkg: "delivery/loop", run: "^TestAnHeirMarksWhatTheNewStreamHolds$"}, says: "messages are stored, want 12",
			edits: []edit{
				{"delivery/loop/take.go", "case lost:", "case false:"},
				{"delivery/loop/take.go", "t.recorded = 0 // positions may be another stream's", "_ = 0"},
			},
		},
		{
			name: "adopted-by-an-old-snapshot", promise: "P1", breaks: "a row that was committed while adopt waited for its writer is lost above read committed",
			test: command{pkg: "outbox/capture", run: "^TestNoRowIsLostWhateverTheIsolation$"}, says: "events: none",
			edits: []edit{{"outbox/capture/store.go", "s.db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})", "s.db.Begin(ctx)"}},
		},
	}
}

// guests returns the ways for a captured or adopted table to fail its writers, and for its first rows to come in another order.
func guests() []mutant {
	of := func(run string) command { return command{pkg: "outbox/capture", run: "^" + run + "$"} }
	const functions = "outbox/schema/migrations/00002_functions.sql"
	return []mutant{
		{
			name: "capture-dollars", promise: "append", breaks: "a table whose name has dollars cannot be captured",
			test: of("TestOddNamesDoNotMeet"), says: "syntax error",
			edits: []edit{{"outbox/capture/function.go", "for strings.Contains(body, tag) {", "for false {"}},
		},
		{
			name: "late-keys-end-rows", promise: "P1", breaks: "a row that took another's key, as a deferrable constraint allows, is told to be gone",
			test: of("TestAKeyThatIsComparedLate"), says: "step 1: followed",
			edits: []edit{{"outbox/capture/body.go", "	if t.late {", "	if false {"}},
		},
		{
			name: "unreadable-texts-appended", promise: "P8", breaks: "a text that UTF-8 has no place for is appended, and its partition stands",
			test: command{pkg: "outbox/schema", run: "^TestTextsOfEveryEncoding$"}, says: "want a refusal that names it",
			edits: []edit{{functions, "character_not_in_repertoire THEN\n    RETURN true;", "character_not_in_repertoire THEN\n    RETURN false;"}},
		},
		{
			name: "backfill-behind", promise: "append", breaks: "a row that was there is told behind a change of it",
			test: of("TestABackfillUnderWriters"), says: "come behind a change|the last events say otherwise",
			edits: []edit{{"outbox/capture/sql/adoption.sql", " WHERE coalesce(l.sequence, 0) <= @begun", " WHERE coalesce(l.sequence, 0) >= @begun * 0"}},
		},
		{
			name: "backfill-skips", promise: "append", breaks: "a row that a writer holds is never told",
			test: of("TestABackfillWaitsForARow"), says: "rows were told, want 3",
			edits: []edit{{"outbox/capture/backfill.go", "if at < 0 && !alone {", "if at < 0 && false {"}},
		},
		{
			name: "backfill-forgets", promise: "append", breaks: "a backfill that was killed begins where nobody knows",
			test: of("TestABackfillIsKilled"), says: "the last events say otherwise",
			edits: []edit{{"outbox/capture/backfill.go", "t.filled = t.before.note.Backfill", "t.filled = &backfilled{Done: true}"}},
		},
		{
			name: "capture-follows-quotes", promise: "append", breaks: "a row's event depends on what the session that writes it has set",
			test: of("TestASessionsSettingsDoNotChangeAnyType"), says: "rows have several texts",
			edits: []edit{{"outbox/capture/function.go", "SET intervalstyle = 'iso_8601'\n", ""}},
		},
		{
			name: "adopt-no-room", promise: "append", breaks: "an INSERT of an application fails whose metadata leave no room for where the row is from",
			test: of("TestMetadataJustBelowTheLimitIsAdopted"), says: "metadata must not exceed",
			edits: []edit{{functions, "IF {schema}.outbox_metadata_problem(event_metadata) IS NOT NULL THEN -- they", "IF false THEN -- they"}},
		},
		{
			name: "adopt-unseen-version", promise: "append", breaks: "an application above READ COMMITTED gets an error that it does not retry",
			test: of("TestAStreamThatASnapshotDoesNotSee"), says: "want SQLSTATE 40001",
			edits: []edit{{functions, "OR pg_trigger_depth() > 0 AND new_id IS NULL)", "OR false)"}},
		},
		{
			name: "adopt-old-columns", promise: "append", breaks: "an INSERT of an application fails once a column of its adopted table has another name or type",
			test: of("TestAnAdoptedTablesColumnsBecomeOthers"), says: "the application's INSERT fails",
			edits: []edit{{"outbox/capture/row.go", "    same := %[6]s;", "    same := %[6]s OR true;"}},
		},
		{
			name: "adopt-many-headers", promise: "append", breaks: "a row with very many headers loses them, and costs its writer seconds",
			test: of("TestManyHeadersAreAdopted"), says: "headers, want 1000|statement timeout",
			edits: []edit{{functions, `ORDER BY e.key COLLATE "C" LIMIT 1000)`, `ORDER BY e.key COLLATE "C")`}},
		},
	}
}
