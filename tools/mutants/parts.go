package main

// eventParts returns the ways to lose, by parts of the events, knowledge of constraints and workers about all of them.
func eventParts() []mutant {
	const functions, operators = "outbox/schema/migrations/00002_functions.sql", "outbox/schema/migrations/00004_operators.sql"
	parts := func(test string) command { return command{pkg: "delivery/ops/parts", run: "^" + test + "$"} }
	return []mutant{
		{
			name: "part-behind-no-lease", promise: "P1", breaks: "a part is dropped whose events wait in a partition without a lease row",
			test: parts("TestWhatIsNeededIsNotDropped"), says: "event 1 waits in the outbox",
			edits: []edit{{operators, "UNION SELECT generate_series(0, s.partition_count - 1)::smallint", "UNION SELECT generate_series(0, -1)::smallint"}},
		},
		{
			name: "part-unseen-by-snapshots", promise: "append", breaks: "a transaction that is older than a part gives a version or an id twice",
			test: command{pkg: "delivery/ops/parts", run: "^TestAnAppendThatIsOlderThanAPartIsRefused$"}, says: "it is answered with <nil>",
			edits: []edit{{operators, "    UPDATE {schema}.outbox_settings SET events_in_parts = true; -- who", "    -- who"}},
		},
		{
			name: "repeated-call-refused", promise: "append", breaks: "a batch that is sent again is refused by its own ids, once events are in parts",
			test: command{pkg: "delivery/ops/parts", run: "^TestARepeatedCallIsKnownOverParts$"}, says: "in parts: .*event id exists",
			edits: []edit{{functions, " WHERE u.duplicate IS NOT TRUE", ""}},
		},
		{
			name: "part-begins-beside-writers", promise: "append", breaks: "who found a version free in one part writes it into the next",
			test: parts("TestAPartBeginsBehindWhoeverAppends"), says: "beginning beside a writer",
			edits: []edit{{operators, "    LOCK TABLE ONLY {schema}.events IN SHARE ROW EXCLUSIVE MODE;\n", ""}},
		},
		{
			name: "looked-before-locked", promise: "append", breaks: "a part begins between the look for a version and the event that gets it",
			test: parts("TestWhoWaitsForAStreamHoldsAPartBack"), says: "locks hold a part back",
			edits: []edit{{functions, "    LOCK TABLE ONLY {schema}.events IN ROW EXCLUSIVE MODE;\n", ""}},
		},
		{
			name: "ids-of-one-part", promise: "append", breaks: "an id of an earlier part is taken for a new one",
			test: parts("TestSequencesVersionsAndIdsGoOnOverParts"), says: "an id of another part",
			edits: []edit{{functions, "IF in_parts AND new_id IS NOT NULL THEN", "IF false THEN"}},
		},
		{
			name: "heads-forgotten", promise: "append", breaks: "a stream whose events were dropped begins anew at version 1",
			test: parts("TestOldPartsGoAndTheirStreamsGoOn"), says: "the stream goes on at version",
			edits: []edit{{functions, "WHERE h.stream_id = new_stream), 0)", "WHERE false), 0)"}},
		},
		{
			name: "waiting-part-dropped", promise: "P1", breaks: "an event goes with its part before it is published",
			test: parts("TestWhatIsNeededIsNotDropped"), says: "waits in the outbox|dropping the oldest part: <nil>",
			edits: []edit{{operators, "AND o.global_sequence < upper LIMIT 1) AS o LIMIT 1", "AND false LIMIT 1) AS o LIMIT 1"}},
		},
		{
			name: "dropped-is-diverged", promise: "gaps", breaks: "a projection takes what was dropped on purpose for what the database forgot",
			test: command{pkg: "projection", run: "^TestAProjectionOutlastsADroppedPart$"}, says: "as if the database had forgotten",
			edits: []edit{{"projection/gaps.go", "w.event != nil && h.event != uuid.Nil && *w.event", "w.event != nil && *w.event"}},
		},
		{
			name: "dropped-is-unknown", promise: "gaps", breaks: "what was dropped on purpose looks like what the database forgot",
			test: command{pkg: "delivery/ops/gaps", run: "^TestDroppedPartsAreNoGaps$"}, says: "unknown-event",
			edits: []edit{{"delivery/ops/gaps/sql/events.sql", "u.sequence >= (SELECT s.events_from FROM", "u.sequence >= (SELECT 0 * s.events_from FROM"}},
		},
	}
}

// audits returns the ways to miss losses in the middle of the stream, and to take others for such.
func audits() []mutant {
	const auditor, history = "delivery/ops/gaps/audit.go", "delivery/ops/gaps/history.go"
	by := func(run string) command { return command{pkg: "delivery/ops/gaps", run: "^" + run} }
	falsely := func(name string) command { return by("TestAnAuditRaisesNoFalseAlarm$/^" + name + "$") }
	return []mutant{
		{
			name: "purged-is-lost", promise: "gaps", breaks: "an audit takes what was purged from the front for lost",
			test: falsely("purged_without_its_records"), says: "the audit missed",
			edits: []edit{{history, "|| g.Position < d.extent.Front ", ""}},
		},
		{
			name: "purged-meanwhile-is-lost", promise: "gaps", breaks: "an audit takes what is purged while it reads for lost",
			test: falsely("published_and_purged_while_it_is_read"), says: "the audit missed",
			edits: []edit{{history, "\td.extent.First, d.extent.Front = now.First, now.Front\n", ""}},
		},
		{
			name: "elsewhere-is-lost", promise: "gaps", breaks: "an audit takes a message that lies in its place for lost",
			test: falsely("passed_over_by_the_reader"), says: "the audit missed",
			edits: []edit{{history, "\treturn !other, err\n", "\treturn !other || err == nil, err\n"}},
		},
		{
			name: "queued-where-unfit", promise: "gaps", breaks: "an audit queues what the stream would lose again",
			test: by("TestAnAuditQueuesNothingWhereTheStreamDoesNotFit$"), says: "were queued",
			edits: []edit{{auditor, "\t\treturn unfit\n", "\t\treturn nil\n"}},
		},
		{
			name: "lost-again-untold", promise: "gaps", breaks: "what is lost twice raises one alarm",
			test: by("TestAnAuditBringsBackTheMiddle$"), says: "with 1 alarms by now",
			edits: []edit{{auditor, "a.told[g.Sequence] != g.Position {", "a.told[g.Sequence] == 0 {"}, {auditor, "\t\ta.told = nil\n", ""}},
		},
		{
			name: "repaired-out-of-order", promise: "P2", breaks: "what is missing is queued in the order of its batches",
			test: by("TestARepairKeepsTheOrderOfSequences$"), says: "or out of order",
			edits: []edit{{"delivery/ops/gaps/repair.go", "return cmp.Compare(a.Sequence, b.Sequence)", "return 0"}},
		},
		{
			name: "audits-of-all", promise: "gaps", breaks: "each worker audits",
			test: command{pkg: "cmd/postrider", run: "^TestAnAuditOutlivesItsWorker$"}, says: "both workers audit",
			edits: []edit{{"worker/audit.go", "Leads: w.leads,", "Leads: context.Background,"}},
		},
	}
}
