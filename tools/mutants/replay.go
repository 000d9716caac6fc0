package main

// replays returns the ways to replay events against the promise, to take a gap for none or none for a gap, and to rehearse wrongly.
func replays() []mutant {
	replay := func(test string) command { return command{pkg: "delivery/ops/replay", run: "^" + test + "$"} }
	return []mutant{
		{
			name: "replay-runner-not-compared", promise: "replay", breaks: "a process that was taken for dead queues on",
			test: replay("TestAnOldRunnerChangesNothing"), says: "queued by a runner that was replaced",
			edits: []edit{
				{"delivery/ops/replay/sql/replays.sql", "AND r.runner = @runner", "AND @runner::uuid IS NOT NULL"},
				{"delivery/ops/replay/sql/replays.sql", "id = @id AND runner = @runner", "id = @id AND @runner::uuid IS NOT NULL"},
			},
		},
		{
			name: "replay-taken-from-the-living", promise: "replay", breaks: "two processes that serve take a replay from each other",
			test: replay("TestAServedReplayIsGoneOnWith"), says: "it was run [0-9]+ times|a replay that is run went from",
			edits: []edit{
				{"delivery/ops/replay/sql/replays.sql", "state = 'running' AND updated_at < clock_timestamp() - @dead::interval", "state = 'running' AND @dead::interval IS NOT NULL"},
				{"delivery/ops/replay/sql/replays.sql", "r.state = 'running' AND r.updated_at < clock_timestamp() - @dead::interval", "r.state = 'running' AND @dead::interval IS NOT NULL"},
			},
		},
		{
			name: "replay-grows", promise: "replay", breaks: "what the page replays is more than it counted and asked about",
			test: command{pkg: "ui", run: "^TestEventsAreReplayedFromThePage$"}, says: "it is \\{",
			edits: []edit{{"ui/pages/replays.go", "given.Set(\"to_sequence\", number(plan.Last))", "_ = plan.Last"}},
		},
		{
			name: "replay-passes-writers", promise: "replay", breaks: "it counts before everything below its end is decided",
			test: replay("TestAReplayEndsBelowOpenTransactions"), says: "it went to 21",
			edits: []edit{{"delivery/ops/replay/plan.go", "(len(writers) > 0 || recovered) && last > safe", "false && last > safe"}},
		},
		{
			name: "replay-same-generation", promise: "replay", breaks: "the stream and consumers take its messages for the first ones",
			test: replay("TestGenerationsAscend"), says: "replay has generation",
			edits: []edit{{"delivery/ops/replay/sql/replays.sql", "SELECT 100 * (1 + greatest(", "SELECT 100 * (0 + greatest("}},
		},
		{
			name: "replay-leaves-nothing-out", promise: "replay", breaks: "what an operator discarded is published",
			test: replay("TestDiscardedEventsAreLeftOut"), says: "it is \\{",
			edits: []edit{{"delivery/ops/replay/sql/selection.sql", "AS e USING (sequence)\n WHERE\n       -- include: match\n\n-- query: Troubled", "AS e USING (sequence)\n WHERE false AND\n       -- include: match\n\n-- query: Troubled"}},
		},
		{
			name: "replay-shadow-looks-silently", promise: "replay", breaks: "a shadow replay that looks for long is taken for dead, and two take it from each other without end",
			test: replay("TestAShadowThatLooksForLongSaysSo"), says: "while it looked it said",
			edits: []edit{{"delivery/ops/replay/shadow.go", `return r.touch(ctx, "it looks what the stream holds of it")`, "return nil"}},
		},
		{
			name: "replay-shadow-asks-nothing", promise: "replay", breaks: "what a killed shadow replay stored is stored again",
			test: replay("TestAShadowAsksTheStreamWhatItHolds"), says: "the stream holds [0-9]+ messages",
			edits: []edit{{"delivery/ops/replay/shadow.go", "if !r.shadow.asked {", "if false {"}},
		},
		{
			name: "replay-planned-for-ever", promise: "replay", breaks: "one that was killed before it began looks as if it was meant to wait",
			test: command{pkg: "cmd/postrider", run: "^TestAReplayKilledBeforeItBeganIsInterrupted$"}, says: "planned",
			edits: []edit{{"cmd/postrider/replay.go", "spec.Begin = !c.Prepare", "spec.Begin = false"}},
		},
		{
			name: "replay-forgets-what-was-expected", promise: "replay", breaks: "what was interrupted while it was counted replays another number than was confirmed",
			test: command{pkg: "cmd/postrider", run: "^TestAReplayKilledBeforeItBeganIsInterrupted$"}, says: "it goes on with status 0",
			edits: []edit{{"delivery/ops/replay/job.go", "j.Expected == nil || *j.Selected == *j.Expected", "j.Expected != nil || true"}},
		},
		{
			name: "gaps-forget-discards", promise: "gaps", breaks: "what an operator discarded is taken for a gap, and repaired",
			test: command{pkg: "delivery/ops/gaps", run: "^TestGapsAreFoundAndMended$"}, says: "never-enqueued 333",
			edits: []edit{{"delivery/ops/gaps/sql/events.sql", "IN ('dead.skip', 'dead.discard', 'scheduled.cancel')", "IN ('dead.skip')"}},
		},
		{
			name: "tail-of-the-old-stream", promise: "P8", breaks: "tail waits for the sequences of a stream that is no more",
			test: command{pkg: "cmd/postrider", run: "^TestAStreamMadeAnewIsReadFromItsBeginning$"}, says: "from all it received",
			edits: []edit{{"cmd/postrider/subscribe.go", "case !r.created.IsZero() && !r.created.Equal(info.Created):", "case false:"}},
		},
	}
}

// rehearsals returns the ways of a shadow, of workers or of a replay, to do other than it says.
func rehearsals() []mutant {
	return []mutant{
		{
			name: "shadow-of-a-lost-stream", promise: "replay", breaks: "a replay whose stream was made anew meanwhile ends as if all were there",
			test: command{pkg: "delivery/ops/replay", run: "^TestAShadowsStreamIsMadeAnew$/^under_way$"}, says: "it ended with <nil>",
			edits: []edit{{"delivery/ops/replay/shadow.go", "if !o.Duplicate && o.StreamSequence <", "if o.Duplicate && o.StreamSequence <"}},
		},
		{
			name: "shadow-resumed-on-a-lost-stream", promise: "replay", breaks: "a replay whose stream was made anew while it was laid aside goes on as if all were there",
			test: command{pkg: "delivery/ops/replay", run: "^TestAShadowsStreamIsMadeAnew$/^laid_aside$"}, says: "it ended with <nil>",
			edits: []edit{{"delivery/natspub/shadow.go", "case info.State.LastSeq < after:", "case info.State.LastSeq < 0:"}, {"delivery/ops/replay/shadow.go", "if !o.Duplicate && o.StreamSequence <", "if o.Duplicate && o.StreamSequence <"}},
		},
		{
			name: "shadow-passes-failed", promise: "rehearsal", breaks: "it publishes what waits behind a message that would be dead",
			test: command{pkg: "cmd/postrider", run: "^TestAShadowClaimsWhatAWorkerWould$"}, says: "the shadow claimed [0-9]+ events",
			edits: []edit{{"delivery/loop/rehearse.go", "s.failed.Add(delivery.StreamKey{Partition: m.Partition, Stream: m.Stream}, true)", "_ = s.failed"}},
		},
		{
			name: "shadow-passes-dead", promise: "rehearsal", breaks: "it publishes what waits behind a message that is dead",
			test: command{pkg: "cmd/postrider", run: "^TestAShadowClaimsWhatAWorkerWould$"}, says: "the shadow claimed [0-9]+ events",
			edits: []edit{{"delivery/loop/rehearse.go", "waits && first < m.Sequence ||", "false && first < 0 ||"}},
		},
	}
}
