package main

// conditions returns the ways to keep silent about why a worker does not deliver.
func conditions() []mutant {
	return []mutant{
		{
			name: "pause-without-condition", promise: "P8", breaks: "delivery pauses and only the log knows",
			test: command{pkg: "delivery/loop", run: "^TestAPauseStandsOnTheBoard$"}, says: "after a failure the board says",
			edits: []edit{{"delivery/loop/pause.go", "\tr.cfg.Board.Report(condition.Delivery, err)\n", ""}},
		},
		{
			name: "taken-ends-pause", promise: "P8", breaks: "a pause ends before anything was published",
			test: command{pkg: "delivery/loop", run: "^TestAPauseStandsOnTheBoard$"}, says: "after a partition was taken the board says",
			edits: []edit{{
				"delivery/loop/pause.go", "\tif f := r.stateAt(id); f.refusals > 0 {\n", "\tr.goOn()\n\tif f := r.stateAt(id); f.refusals > 0 {\n",
			}},
		},
		{
			name: "unstored-unsaid", promise: "P8", breaks: "a watermark that cannot be stored is nobody's concern",
			test: command{pkg: "delivery/loop", run: "^TestAWatermarkThatCannotBeStoredIsTold$"}, says: "looks and 0 refusals|looks and [1-9] refusals|it says",
			edits: []edit{{"delivery/loop/mailbox.go", "r.advancing, r.behind = false, a.err != nil", "r.advancing, r.behind = false, false && a.err != nil"}},
		},
		{
			name: "ready-while-paused", promise: "P8", breaks: "a worker that cannot deliver is ready",
			test: command{pkg: "cmd/postrider", run: "^TestEveryPauseOfDeliveryIsNamed$/^stream_deleted$"}, says: "wait until all name stream_missing",
			edits: []edit{{"worker/conditions.go", "if err := w.board.Err(); err != nil {", "if err := w.board.Err(); false {"}},
		},
		{
			name: "canaries-of-all", promise: "P8", breaks: "each worker sends canaries",
			test: command{pkg: "worker", run: "^TestOneWorkerSendsCanaries$"}, says: "the other worker read",
			edits: []edit{{"worker/canary.go", "return c.w.leads() != nil }", "return true }"}},
		},
		{
			name: "canaries-pile-up", promise: "P8", breaks: "canaries gather where delivery is paused",
			test: command{pkg: "worker", run: "^TestACanaryIsOverdue$"}, says: "canaries wait, want one of each stream",
			edits: []edit{{"worker/canary.go", "if c.waiting[stream] == nil {", "if true {"}},
		},
		{
			name: "condition-not-written", promise: "P8", breaks: "only the worker itself knows what keeps it from delivering",
			test: command{pkg: "cmd/postrider", run: "^TestEveryPauseOfDeliveryIsNamed$/^stream_deleted$"}, says: "wait until all name stream_missing",
			edits: []edit{{"heartbeat/beater.go", "self.Condition, self.Canary = b.cfg.Board.First(), b.cfg.Canary()", "self.Canary = b.cfg.Canary()"}},
		},
		{
			name: "functions-not-asked", promise: "P8", breaks: "a server without the functions that leases need is found well",
			test: command{pkg: "delivery/pgstore", run: "^TestWhatADatabaseLacksIsNamed$"}, says: "without pg_control_system",
			edits: []edit{{"delivery/pgstore/database.go", "case len(denied) > 0:", "case false && len(denied) > 0:"}},
		},
		{
			name: "restart-goes-unseen", promise: "P2, P4", breaks: "where timelines are refused, a lease outlives a failover",
			test: command{pkg: "delivery/loop", run: "^TestADatabaseIsKnownByItsStart$"}, says: "want only partition",
			edits: []edit{{"lease/store.go", "if acquired[id] == database {", "if true {"}},
		},
		{
			name: "unfit-is-healed", promise: "P4, P8", breaks: "what a setting has the stream drop is published again and again",
			test: command{pkg: "delivery/loop", run: "^TestNothingIsHealedOnAStreamThatDoesNotFit$/^max_age$"}, says: "were published while the stream did not fit",
			edits: []edit{
				{"delivery/loop/pause.go", "if err == nil && now.Unfit != nil {", "if false {"},
				{"delivery/loop/loop.go", "if r.unfit != nil || r.held != nil {", "if false {"},
			},
		},
		{
			name: "expired-is-lost", promise: "P4", breaks: "what the stream let expire by its max_age is published again",
			test: command{pkg: "delivery/loop", run: "^TestWhatExpiresIsNotHealed$"}, says: "were published again behind a stream",
			edits: []edit{{"delivery/pgstore/heal.go", "\"age\": pg.OrNull(loss.Age),", "\"age\": nil,"}},
		},
		{
			name: "unfit-unsaid", promise: "P8", breaks: "a worker publishes to a stream that does not keep what it acknowledges",
			test: command{pkg: "delivery/loop", run: "^TestNothingIsHealedOnAStreamThatDoesNotFit$/^max_msgs_per_subject$"}, says: "were published while",
			edits: []edit{{"delivery/loop/loop.go", "if r.unfit != nil || r.held != nil {", "if false {"}},
		},
		{
			name: "closed-for-good", promise: "P8", breaks: "a worker whose connection NATS's client gave up waits for ever",
			test: command{pkg: "cmd/postrider", run: "^TestALoweredMaxPayloadFailsOneEventAlone$"}, says: "wait until all but the large event are published",
			edits: []edit{{"internal/closed/closed.go", "for !nc.IsClosed() {", "for {"}},
		},
		{
			name: "failure-logged-each-time", promise: "P8", breaks: "a failed reconciliation fills the log",
			test: command{pkg: "coordinator", run: "^TestAFailureIsLoggedOnce$"}, says: "lines of failures",
			edits: []edit{{"coordinator/coordinator.go", "\tif text == c.failing {", "\tif text == c.failing && err == nil {"}},
		},
	}
}

// connections returns the ways to lose the broker, or to report it wrongly.
func connections() []mutant {
	return []mutant{
		{
			name: "pause-hides-another", promise: "P8", breaks: "why a partition paused alone hides for a minute what keeps all of them",
			test: command{pkg: "delivery/loop", run: "^TestAPauseStandsOnTheBoard$"}, says: "when nothing flows any more, for another reason the board says",
			edits: []edit{{"delivery/loop/pause.go", "would hide this one\n\t\tr.resume(id)\n", "would hide this one\n\t\t_ = id\n"}},
		},
		{
			name: "records-among-events", promise: "P8", breaks: "who reads the events' subjects gets the workers' control messages",
			test: command{pkg: "delivery/natspub/streams", run: "^TestEventsAndControlMessagesLieApart$"}, says: "overlaps with",
			edits: []edit{{"delivery/natspub/streams/stream.go", "covers(events, control) || covers(control, events) {", "false {"}},
		},
		{
			name: "buffer-is-full", promise: "P8", breaks: "without a connection the log speaks of a buffer",
			test: command{pkg: "delivery/natspub", run: "^TestALostConnectionLeavesTheOutcomeUnknown$"}, says: "without a connection it says",
			edits: []edit{{"delivery/natspub/wire/acks.go", "return Answer{Err: Plainly(a.nc, err)}", "return Answer{Err: err}"}},
		},
		{
			name: "login-given-up", promise: "P6", breaks: "a login that was refused twice ends a worker's connection for good",
			test: command{pkg: "delivery/natspub/wire", run: "^TestALoginThatIsRefusedForAWhileIsTriedAgain$"}, says: "it tries no more",
			edits: []edit{{"delivery/natspub/wire/connect.go", "\t\tnats.IgnoreAuthErrorAbort(),\n", ""}},
		},
		{
			name: "doorbell-refused-again", promise: "P8", breaks: "a doorbell that NATS refuses fills the log",
			test: command{pkg: "delivery/natspub/wire", run: "^TestARefusedDoorbellIsToldOfOnce$"}, says: "more records tell of the doorbell",
			edits: []edit{{"delivery/natspub/wire/connect.go", "if !refused[right+bell] {", "if true {"}},
		},
		{
			name: "ended-unseen", promise: "P8", breaks: "a worker ends for good although nothing is known of the stream",
			test: command{pkg: "delivery/loop", run: "^TestAConfigurationErrorStopsTheRelay$"}, says: "although nobody had seen the stream",
			edits: []edit{{"delivery/loop/mailbox.go", "r.away(d.unknown)", "r.fatal = cmp.Or(r.fatal, d.answer)"}},
		},
		{
			name: "patience-of-the-time-out", promise: "P5", breaks: "what a leader took with it is awaited for the whole time-out",
			test: command{pkg: "delivery/natspub/wire", run: "^TestPatienceFollowsTheAnswers$"}, says: "at first an answer is awaited for 5s",
			edits: []edit{{
				"delivery/natspub/wire/patience.go",
				"return min(p.most, max(leastPatience, p.smooth+4*p.vary)<<min(p.silent, 10))",
				"return p.most",
			}},
		},
		{
			name: "patience-without-memory", promise: "P5", breaks: "a broker that is always slower than a second is asked in vain for ever",
			test: command{pkg: "delivery/natspub/wire", run: "^TestPatienceFollowsTheAnswers$"}, says: "after one silence an answer is awaited for 1s",
			edits: []edit{{"delivery/natspub/wire/patience.go", "\t\tp.silent++\n", ""}},
		},
	}
}

// looks returns the ways to read too little of the outbox.
func looks() []mutant {
	planned := command{pkg: "delivery/loop", run: "^TestALookAsksForWhatWasNamed$"}
	return []mutant{
		{
			name: "sequences-of-any-column", promise: "P6", breaks: "no worker starts where a sequence belongs to a column that is no integer",
			test: command{pkg: "delivery/pgstore", run: "^TestSequencesAreComparedUnderAnyPlan$"}, says: "does not exist|out of range",
			edits: []edit{{"delivery/pgstore/sql/checks/preconditions.sql", " AND a.atttypid IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype)", ""}},
		},
		{
			name: "bell-with-an-old-password", promise: "P8", breaks: "the log's bell asks nobody for the password",
			test: command{pkg: "delivery/walbell", run: "^TestThePasswordComesWhenItConnects$"}, says: "the log is not found well",
			edits: []edit{{"delivery/walbell/session.go", "if full.BeforeConnect != nil {", "if false {"}},
		},
		{
			name: "failover-renewed-around-locks", promise: "P4", breaks: "a lease from before a failover is renewed while somebody holds a row locked",
			test: command{pkg: "lease", run: "^TestAFailoverOfTheDatabaseEndsLeases$"}, says: "around a locked row: renewed .0",
			edits: []edit{{"lease/store.go", "case acquired[id] != database:", "case false:"}},
		},
		{
			name: "hint-trusted", promise: "P1", breaks: "while rings name partitions nobody looks at the others",
			test: planned, says: "named, and a poll is due: it does",
			edits: []edit{{"delivery/loop/schedule.go", " || now.Sub(s.every) >= s.interval {", " {"}},
		},
		{
			name: "ring-for-all-ignored", promise: "P5", breaks: "a ring for all has only those looked at that others named",
			test: planned, says: "for all: it does",
			edits: []edit{{"delivery/loop/schedule.go", "s.once || o.every || !o.requested", "s.once || !o.requested"}},
		},
		{
			name: "ring-amid-batch-lost", promise: "P5", breaks: "a ring for a partition whose batch is under way is forgotten",
			test: command{pkg: "delivery/loop", run: "^TestARingWhileABatchIsUnderWayIsNotLost$"}, says: "waited in vain for 0 from SELECT",
			edits: []edit{{"delivery/loop/loop.go", "f.more, f.requested = f.more || f.busy(), true", "f.requested = !f.busy()"}},
		},
	}
}

// refusedLooks returns the ways to take a refused read for an empty one.
func refusedLooks() []mutant {
	return []mutant{
		{
			name: "canary-given-up-unseen", promise: "P8", breaks: "a canary is given up while the stream does not answer",
			test: command{pkg: "worker", run: "^TestACanaryIsNotGivenUpUnseen$"}, says: "some were given up",
			edits: []edit{{"worker/canary.go", "c.seen.Sub(f.committed) < ", "time.Since(f.committed) < "}},
		},
		{
			name: "silence-is-the-end", promise: "P8", breaks: "tail finds all well while the broker is silent",
			test: command{pkg: "cmd/postrider", run: "^TestTailTakesSilenceForNoEnd$"}, says: "status 0",
			edits: []edit{{"cmd/postrider/subscribe.go", "	return fmt.Errorf(\"nothing came for ", "	return nil\n	return fmt.Errorf(\"nothing came for "}},
		},
		{
			name: "refused-look-untold", promise: "P8", breaks: "an inbox that may not ask the stream for its end says nothing",
			test: command{pkg: "inbox", run: "^TestAnUnansweredLookIsTold$"}, says: "nobody says",
			edits: []edit{{"inbox/pump.go", "	end, err := unseen.Last(ctx, r.js, r.cfg.Stream, r.cfg.Filter)\n	if err != nil {\n		return err\n", "	end, err := unseen.Last(ctx, r.js, r.cfg.Stream, r.cfg.Filter)\n	if err != nil {\n		return nil\n"}},
		},
	}
}
