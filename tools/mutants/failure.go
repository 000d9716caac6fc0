package main

// failure returns the ways to deal wrongly with failures.
func failure() []mutant {
	return []mutant{
		{
			name: "outage-counts", promise: "P6", breaks: "attempts are counted while the broker is away",
			test: fenceTest(lateBytes), says: "published through a held link",
			edits: []edit{{step, "\t\t\tr.outcomes[i].Err = err\n", "\t\t\tr.outcomes[i] = delivery.Outcome{Kind: delivery.Retry, Err: err}\n"}},
		},
		{
			name: "ready-passes-parked", promise: "P2", breaks: "new rows pass parked ones of their stream",
			test: command{pkg: "delivery/loop", run: "^TestNewEventsWaitBehindParkedOnes$"}, says: "event [0-9]+: .*want blocked",
			edits: []edit{{claimFile, "AND p.global_sequence < o.global_sequence", "AND false"}},
		},
		{
			name: "anyone-leads", promise: "P1", breaks: "rows behind a dead one use up what a claim may take",
			test: command{pkg: "delivery/loop", run: "^TestScheduledRowsBehindADeadOneStarveNobody$"}, says: "waited in vain|did not come to an end",
			edits: []edit{{claimFile, "AND e.global_sequence < i.global_sequence", "AND false"}},
		},
		{
			name: "parked-out-of-turn", promise: "P2", breaks: "a stream's parked rows pass one that is not due",
			test: command{pkg: "delivery/loop", run: "^TestParkedRowsStopAtTheFirstThatCannotGo$"}, says: "stored .*, want only",
			edits: []edit{{"delivery/pgstore/claim.go", "cut[key] = cut[key] || m.NotDue", "cut[key] = m.NotDue"}},
		},
		{
			name: "requeue-same-generation", promise: "P1", breaks: "a requeued message is the old one again",
			test: command{pkg: "delivery/ops", run: "^TestRequeueBeginsAnewAndKeepsItsPlace$"}, says: "Generation:0",
			edits: []edit{{"delivery/ops/sql/change.sql", "generation   = o.generation + 1", "generation   = o.generation"}},
		},
		{
			name: "passed-before-parked", promise: "P2", breaks: "a partition goes on before the mark of a failure",
			test: command{pkg: "delivery/loop", run: "^TestAPartitionWaitsForTheMarkOfAFailure$"}, says: "something passed what had failed",
			edits: []edit{{"delivery/loop/publish.go", "\t\tf.to(marking)\n", "\t\tc.late = true\n\t\tf.progress(c.Result)\n\t\tr.free(f, c.Batch.More)\n"}},
		},
		{
			name: "latency-counts-waiting", promise: "metrics", breaks: "the latency of a scheduled event counts the time it was to wait",
			test: command{pkg: "delivery/loop", run: "^TestLatencyLeavesOutWhatWasScheduled$"}, says: "the histogram counts 1, 36|of the history",
			edits: []edit{{"delivery/message.go", "if m.ScheduledFor.After(m.Event.RecordedAt) {", "if false {"}},
		},
		{
			name: "death-without-a-line", promise: "P7", breaks: "a message dies and the log does not tell",
			test: command{pkg: "delivery/loop", run: "^TestEachDeadMessageIsALineOfTheLog$"}, says: "0 messages of 41",
			edits: []edit{{"delivery/loop/marker.go", "		r.died(res)\n", ""}},
		},
		{
			name: "cancelled-on-its-way", promise: "P1", breaks: "a message that a worker published is cancelled under it",
			test: command{pkg: "delivery/ops", run: "^TestWhatIsOnItsWayIsNotCancelled$"}, says: "it is (discarded|published)|Count:1",
			edits: []edit{{"delivery/ops/schedule.go", "until != nil && !now.Before(*until)", "until != nil && now.IsZero()"}},
		},
		{
			name: "gaps-forget-cancels", promise: "gaps", breaks: "what an operator cancelled is taken for a gap, and repaired",
			test: command{pkg: "delivery/ops/gaps", run: "^TestGapsAreFoundAndMended$"}, says: "never-enqueued 334",
			edits: []edit{{"delivery/ops/gaps/sql/events.sql", ", 'scheduled.cancel')", ")"}},
		},
		{
			name: "failures-unbounded", promise: "messages", breaks: "a message that fails for ever grows for ever",
			test: command{pkg: "delivery/loop", run: "^TestTheLastFailuresStayWithAMessage$"}, says: "[0-9]+ failures are kept",
			edits: []edit{{"delivery/pgstore/sql/park.sql", ">= 10 THEN", ">= 10000 THEN"}},
		},
	}
}

// crashes returns the ways to let a message end one worker after the other, or to pause a partition for nothing.
func crashes() []mutant {
	const poison = "^TestAMessageThatEndsItsWorkersPausesItsPartition$"
	return []mutant{
		{
			name: "crashes-never-forgotten", promise: "P7", breaks: "crashes count although something was settled since",
			test: command{pkg: "delivery/loop", run: poison}, says: "although a message was published [1-9] crashes",
			edits: []edit{{"delivery/pgstore/sql/mark.sql", "crashes         = 0,", "crashes         = p.crashes,"}},
		},
		{
			name: "alone-never-careful", promise: "P7", breaks: "a message ends a worker without leases again and again, for ever",
			test: command{pkg: "delivery/loop", run: poison + "/^alone$"}, says: "the partition is paused after 10 ends",
			edits: []edit{{"lease/sql/leases.sql", "              crashes     = p.crashes + (p.carrying OR p.crashes = 0)::int,\n", ""}},
		},
		{
			name: "carried-not-noted", promise: "P7", breaks: "a message that ends its workers does so for ever",
			test: command{pkg: "delivery/loop", run: poison}, says: "the partition is paused after 10 ends",
			edits: []edit{{"delivery/loop/publish.go", "\t\tif c.crashed {\n", "\t\tif false {\n"}},
		},
		{
			name: "outage-is-a-crash", promise: "P6, P7", breaks: "a partition is paused for workers that ended while the broker took nothing",
			test: command{pkg: "delivery/loop", run: "^TestAnOutagePausesNothing$"}, says: "it is .*pending",
			edits: []edit{{"delivery/loop/publish.go", "if !c.crashed || !c.Batch.Lease.Valid() {", "if c.crashed || !c.Batch.Lease.Valid() {"}},
		},
		{
			name: "idle-is-a-crash", promise: "P7", breaks: "a partition is paused for workers that ended while they carried nothing of it",
			test: command{pkg: "delivery/loop", run: "^TestOwnersThatEndIdlePauseNothing$"}, says: "behind idle owners .* is published",
			edits: []edit{{"lease/sql/leases.sql", " AND (p.carrying OR p.crashes = 0))::int", ")::int"}},
		},
		{
			name: "crashes-survive-a-resize", promise: "P7", breaks: "a partition is paused for crashes over streams that it has no more",
			test: command{pkg: "delivery/loop", run: "^TestAResizeForgetsCrashes$"}, says: "behind the resize .* crashes",
			edits: []edit{{"delivery/ops/resize/sql/resize.sql", "SET crashes = 0, carrying = false)", "SET crashes = crashes)"}},
		},
		{
			name: "resumed-for-nothing", promise: "P7", breaks: "a partition that was resumed ends as many workers as before",
			test: command{pkg: "delivery/loop", run: poison}, says: "the partition that was resumed is paused after [2-9]",
			edits: []edit{{"delivery/pgstore/sql/takeover.sql", "SET crashes    = @most - 1,", "SET crashes    = @most - @most,"}},
		},
	}
}

// neighbours returns the ways to let an event's surroundings harm it, or other events.
func neighbours() []mutant {
	return []mutant{
		{
			name: "key-of-a-waiting-event", promise: "P4", breaks: "an event that waits for long is appended once more, as its dedupe key has gone",
			test: command{pkg: "delivery/loop", run: "^TestTheKeyOfAnEventThatWaitsStaysTaken$"}, says: "is appended once more as",
			edits: []edit{{"delivery/pgstore/sql/statistics.sql", "AND o.global_sequence = outbox_dedupe_keys.global_sequence)", "AND o.global_sequence < 0)"}},
		},
		{
			name: "purged-is-never-enqueued", promise: "P4", breaks: "gaps repair publishes again what was purged on purpose and the history has forgotten",
			test: command{pkg: "delivery/ops/gaps", run: "^TestWhatWasRemovedOnPurposeIsNoGapBehindTheHistory$"}, says: "are queued a second time",
			edits: []edit{{"delivery/ops/gaps/detect.go", "d.stream != nil && d.extent.Whole", "d.stream != nil && d.extent.First <= 1"}},
		},
		{
			name: "answer-of-another-copy", promise: "calls", breaks: "a call takes the answer of a forgotten one that had its number",
			test: command{pkg: "inbox/caller", run: "^TestAnAnswerOfAForgottenCallIsNoOtherCalls$"}, says: "another call's answer|does not wait",
			edits: []edit{{"inbox/caller/step.go", "		if _, err := c.lockCompared(ctx, tx); err != nil {", "		if _, err := c.lock(ctx, tx); err != nil {"}},
		},
		{
			name: "inbox-believes-a-clock-ahead", promise: "P1", breaks: "events are passed over where the broker's clock was ahead when it gave a position its time",
			test: command{pkg: "inbox", run: "^TestABrokerWhoseClockWasAheadWasRestored$"}, says: "SELECT count.* FROM effects",
			edits: []edit{{"inbox/lost.go", "	case at < m.at:\n", "	case at < 0:\n"}},
		},
		{
			name: "odd-metadata-fails-all", promise: "P7", breaks: "JSON that no text can hold stops the delivery of all events",
			test: command{pkg: "delivery/loop", run: "^TestMetadataThatNoTextHoldsHarmsItsOwnStream$"}, says: "waited in vain",
			edits: []edit{{"delivery/pgstore/relation.go", "`CASE WHEN NOT `+pg.Unread(\"e.metadata\")+` THEN e.metadata END`", "`e.metadata`+pg.Unread(\"\")[:0]"}},
		},
		{
			name: "published-and-unreadable", promise: "P1", breaks: "an event is published that every consumer refuses",
			test: command{pkg: "delivery/loop", run: "^TestWhatConsumersRefuseIsNotPublished$"}, says: "no consumer reads it",
			edits: []edit{{"delivery/pgstore/rehydrate.go", "case r.version.Int64 < 1:", "case r.version.Int64 < 0:"}},
		},
		{
			name: "comment-is-a-statement", promise: "rights", breaks: "a table's owner has a comment run with the rights of who drops its trigger",
			test: command{pkg: "outbox/capture", run: "^TestACommentIsNoStatement$"}, says: "was run|refuse",
			edits: []edit{{"outbox/capture/publication.go", "if err == nil && !closed(m.Where) {", "if err == nil && false && !closed(m.Where) {"}},
		},
		{
			name: "suspended-for-ever", promise: "P6", breaks: "a command that is suspended amid a change holds delivery up for ever",
			test: command{pkg: "delivery/ops/gaps", run: "^TestASuspendedCommandDoesNotEndDelivery$"}, says: "what was appended meanwhile is published",
			edits: []edit{{"delivery/ops/maintenance/maintenance.go", ".with(\"idle_in_transaction_session_timeout\", IdlePatience.String())", ""}},
		},
	}
}
