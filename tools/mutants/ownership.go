package main

// ownership is the ways to tell people wrongly who had a partition.
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
			test: command{pkg: "delivery", run: "^TestTheSweeperDeletesOnlyWhatIsOver$"}, says: "7 changes of ownership",
			edits: []edit{{"delivery/retention.go", "{s.store.sql.RetainOwnership, s.cfg.Ownership},", ""}},
		},
		{
			name: "marks-told-of-too-long", promise: "P8", breaks: "marks that failed are told of when the lease is lost",
			test: command{pkg: "delivery", run: "^TestMarksOfALostLeaseAreNotToldOf$"}, says: "the board says",
			edits: []edit{{"delivery/settle.go", "\t\tr.cfg.Board.Report(\"marks of \"+boardName(id), nil) // they are the heir's\n", ""}},
		},
		{
			name: "pause-told-of-too-long", promise: "P8", breaks: "a partition that pauses alone is told of when the lease is lost",
			test: command{pkg: "delivery", run: "^TestAPauseEndsWithTheLease$"}, says: "the board says",
			edits: []edit{{"delivery/relay.go", "\t\t\t\tr.resume(id) // whoever", "\t\t\t\t_ = id // whoever"}},
		},
		{
			name: "canary-overdue-for-ever", promise: "P8", breaks: "a canary that nothing has to deliver any more stays overdue",
			test: command{pkg: "worker", run: "^TestACanaryThatNeverComesIsForgotten$"}, says: "nothing brings it there",
			edits: []edit{{"worker/canary.go", "case err != nil || d.State.Queued():", "default:"}},
		},
		{
			name: "durable-by-ordering", promise: "P1", breaks: "with ordering stream nobody asks whether what is queued is durable",
			test: command{pkg: "delivery", run: "^TestTheOrderOfStreamsNeedsDurabilityAlone$"}, says: "of streams whose events are not durable: <nil>",
			edits: []edit{{"delivery/preconditions.go", "(o != OrderStream || v.anyOrder)", "o != OrderStream"}},
		},
		{
			name: "kept-over-a-failover", promise: "P1, P4", breaks: "what was kept of an event is published as the one that has its sequence after a failover",
			test: command{pkg: "delivery", run: "^TestAnotherServersEventsAreReadAnew$"}, says: "it is kept for another server's",
			edits: []edit{{"delivery/carry.go", "b.server.UnixMicro()}", "0}"}},
		},
		{
			name: "records-for-each-subject", promise: "P4", breaks: "a stream that drops records of a subject is taken for fit",
			test: command{pkg: "delivery/natspub", run: "^TestStreamsThatCannotBeFencedAreRefused$"}, says: "max_msgs_per_subject 100000: <nil>",
			edits: []edit{{"delivery/natspub/fitness.go", "case s.MaxMsgsPerSubject > 0:", "case s.DiscardNewPerSubject:"}},
		},
		{
			name: "positions-of-the-old-stream", promise: "P4", breaks: "where losses are reported an heir looks in a new stream behind positions of the old one",
			test: command{pkg: "delivery", run: "^TestAnHeirMarksWhatTheNewStreamHolds$"}, says: "messages are stored, want 12",
			edits: []edit{
				{"delivery/take.go", "case standing.Kept < known:", "case false:"},
				{"delivery/take.go", "t.recorded = 0 // positions may be another stream's", "_ = 0"},
			},
		},
		{
			name: "adopted-by-an-old-snapshot", promise: "P1", breaks: "a row that was committed while adopt waited for its writer is lost above read committed",
			test: command{pkg: "outbox/capture", run: "^TestNoRowIsLostWhateverTheIsolation$"}, says: "events: none",
			edits: []edit{{"outbox/capture/store.go", "s.db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})", "s.db.Begin(ctx)"}},
		},
	}
}
