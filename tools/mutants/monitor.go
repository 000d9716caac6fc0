package main

// monitor returns the ways to let outside input grow without a bound, or shut people out.
func monitor() []mutant {
	return []mutant{
		{
			name: "limiter-by-address", promise: "monitor", breaks: "wrong passwords of one user lock out all who share its address",
			test: command{pkg: "ui", run: "^TestGuessingIsSlowedDown$"}, says: "status 429, want 200",
			edits: []edit{{"ui/attempts.go", "peer+\" \"+name", "peer"}},
		},
		{
			name: "least-duration", promise: "monitor", breaks: "an event with a far date ends every process whose page shows it",
			test: command{pkg: "web", run: "^TestDurationsAreWritten$"}, says: "stack",
			edits: []edit{{"web/format.go", "Duration(-max(d, -math.MaxInt64))", "Duration(-d)"}},
		},
		{
			name: "times-unbounded", promise: "monitor", breaks: "a time that JSON cannot write fails pages, lists and routes",
			test: command{pkg: "internal/pg", run: "^TestTimesAndDurationsAreReadWithinBounds$"}, says: "infinity",
			edits: []edit{{"internal/pg/pool.go", "boundValues(conn.TypeMap())", "_ = boundValues"}},
		},
		{
			name: "connections-unbounded", promise: "monitor", breaks: "connections held open use up the process's descriptors",
			test: command{pkg: "ui", run: "^TestAThousandConnectionsLeaveTheMonitorAnswering$"}, says: "connections were closed, want",
			edits: []edit{{"ui/connections.go", "if full || fullFrom {", "if (full || fullFrom) && false {"}},
		},
		{
			name: "too-large-is-read", promise: "P6", breaks: "events that the broker can never take are read into memory",
			test: command{pkg: "delivery/loop", run: "^TestWhatTheBrokerCannotTakeIsNotRead$"}, says: "the reason is",
			edits: []edit{{"delivery/shape/hooks.go", "can.Largest > 0 && can.Largest < s.own.Bytes", "can.Largest < 0"}},
		},
		{
			name: "large-side-by-side", promise: "P6", breaks: "large payloads are transformed side by side, each several times in memory",
			test: command{pkg: "delivery/shape", run: "^TestLargePayloadsAreTransformedOneAtATime$"}, says: "another large one",
			edits: []edit{{"delivery/shape/hooks.go", "if size <= largeTransform {", "if true || size <= largeTransform {"}},
		},
		{
			name: "watermark-of-minutes-ago", promise: "P8", breaks: "one slow read has the page say for minutes how little was waited for",
			test: command{pkg: "ui/source", run: "^TestASlowReadIsRepeatedInTime$"}, says: "1s later: 1, <nil>; want 2",
			edits: []edit{{"ui/source/paced.go", "pause = min(pause, p.most)", "pause = max(pause, p.most)"}},
		},
		{
			name: "alone-owns-nothing", promise: "P8", breaks: "the monitor of a worker without leasing says that nobody delivers",
			test: command{pkg: "worker", run: "^TestTheMonitorEndsWithTheWorker$"}, says: "want all owned by one",
			edits: []edit{{"worker/monitor.go", "look.Alone = w.beater.Self", "_ = w.beater.Self"}},
		},
		{
			name: "reads-outlive-the-pool", promise: "P8", breaks: "a worker that is told to stop waits a minute for a count that nobody looks at",
			test: command{pkg: "ui/source", run: "^TestAReadEndsBeforeItsPoolIsClosed$"}, says: "the read ended with context deadline exceeded after",
			edits: []edit{{"ui/source/paced.go", "case <-p.over:", "case <-(chan struct{})(nil):"}},
		},
		{
			name: "rate-of-minutes", promise: "P8", breaks: "what is shown as published per second is of another time",
			test: command{pkg: "delivery/loop", run: "^TestTheRateIsOfTheLastSeconds$"}, says: "400 events in ten seconds",
			edits: []edit{{"delivery/pgstore/sql/statistics.sql", "interval '10 seconds'", "interval '2 minutes'"}},
		},
		{
			name: "seconds-over-gaps", promise: "P8", breaks: "seconds that nobody looked at are shown as if nothing was published in them",
			test: command{pkg: "ui/source", run: "^TestSecondsAreThoseThatWereLookedAt$"}, says: "after a gap",
			edits: []edit{{"ui/source/seconds.go", "r.at.IsZero() || from.After(r.at)", "r.at.IsZero()"}},
		},
		{
			name: "timeline-hides-gaps", promise: "P8", breaks: "the time without an owner before a take-over is drawn as the dead owner's",
			test: command{pkg: "ui/pages", run: "^TestSpansFollowTheChanges$"}, says: "b 20-0, a 60-20",
			edits: []edit{{"ui/pages/timeline.go", "c.RanOut != nil && c.RanOut.Before(c.At)", "false"}},
		},
		{
			name: "unknown-is-zero", promise: "P8", breaks: "a topic whose dead messages are not told apart is shown as having none",
			test: command{pkg: "ui/source", run: "^TestNameLoadsClaimNothingThatIsNotKnown$"}, says: "new: 9, 0 dead 0s",
			edits: []edit{{"ui/source/names.go", "all && rest.Dead == 0 && rest.Oldest == 0", "all"}},
		},
		{
			name: "cause-takes-others", promise: "P7", breaks: "acting on what died of one cause changes what died of others",
			test: command{pkg: "delivery/ops", run: "^TestTheDeadAreGroupedByCause$"}, says: "messages of the cause",
			edits: []edit{{"delivery/ops/sql/list.sql", "                              = @family)", "                              <> '' OR true)"}},
		},
		{
			name: "names-unbounded", promise: "P8", breaks: "metrics grow with the names that producers make up",
			test: command{pkg: "delivery/loop", run: "^TestDeadAndOldestByName$"}, says: "[0-9]+ topics, t-2",
			edits: []edit{{"delivery/names.go", "case len(n.kept) == NamesKept || name == OtherName", "case name == OtherName"}},
		},
	}
}

// renewals returns the ways to believe an old reading.
func renewals() []mutant {
	return []mutant{
		{
			name: "rights-looked-at-once", promise: "monitor", breaks: "a right or a column that comes back is missed by a monitor until it is started again",
			test: command{pkg: "ui", run: "^TestWhatTheMonitorLacksIsLookedAtAgain$"}, says: "status 503, want 501",
			edits: []edit{{"ui/server.go", "s.rights.Renew(ctx, desk)", "s.rights"}},
		},
		{
			name: "certificates-pile-up", promise: "gaps", breaks: "the audit grows by a certificate with each audit of the stream, for ever",
			test: command{pkg: "delivery/ops/gaps", run: "^TestCertificatesAreSwept$"}, says: "want 1000",
			edits: []edit{{"outbox/schema/migrations/00004_operators.sql", "OFFSET 1000 LIMIT 1", "OFFSET 100000 LIMIT 1"}},
		},
		{
			name: "latency-of-two-clocks", promise: "projection", breaks: "the latency of a projection is off by as much as two clocks are",
			test: command{pkg: "projection", run: "^TestTheLatencyIsOfOneClock$"}, says: "events took",
			edits: []edit{{"projection/metrics.go", "e.seconds + time.Since(e.read).Seconds()", "max(time.Since(e.RecordedAt), 0).Seconds()"}},
		},
		{
			name: "one-row-fails-the-list", promise: "messages", breaks: "one row of a view that fails fails every list that comes by it",
			test: command{pkg: "delivery/ops", run: "^TestAViewMayFailForSomeRows$"}, says: "division by zero",
			edits: []edit{{"delivery/ops/list.go", `[]string{"22", "P0"}`, `[]string{}`}},
		},
		{
			name: "broken-address-is-shown", promise: "rights", breaks: "the password of an address that cannot be read stands in the error",
			test: command{pkg: "cmd/postrider", run: "^TestBrokenAddressesAreNotShown$/^quote_without_an_end$"}, says: "a secret is shown",
			edits: []edit{{"internal/pg/pool.go", `unread.ConnString = ""`, `_ = unread`}},
		},
	}
}
