package main

import "time"

// operating returns the ways to forget operators' orders, and to mislead operators.
func operating() []mutant {
	return []mutant{
		{
			name: "resize-passed-over", promise: "P8", breaks: "a change of many messages misses what a resize moved",
			test: command{pkg: "delivery/ops", run: "^TestAResizeBetweenTwoChunksIsTold$"}, says: "501",
			edits: []edit{{"delivery/ops/mend.go", "|| resized == at.resized {", "|| true {"}},
		},
		{
			name: "limit-ignored", promise: "P8", breaks: "whoever tries a requeue with the first dead messages requeues all",
			test: command{pkg: "delivery/ops", run: "^TestALimitTakesTheFirstOnes$"}, says: "Count:700",
			edits: []edit{{"delivery/ops/mend.go", "int(min(chunk, c.Most-r.Count))", "int(min(chunk, c.Most))"}},
		},
		{
			name: "held-by-the-clock-alone", promise: "P1", breaks: "a cancel takes what was due before somebody held it, which a worker may have begun with",
			test: command{pkg: "delivery/ops", run: "^TestHeldMessagesCanBeTakenAgain$"}, says: "of what was due when it was held",
			edits: []edit{{"delivery/ops/sql/change.sql", "coalesce(o.scheduled_for, o.available_at) AS until", "o.available_at AS until"}},
		},
		{
			name: "resize-unaudited", promise: "P8", breaks: "a resize is made that the audit does not tell of",
			test: command{pkg: "delivery/loop", run: "^TestAResizeWithoutItsAuditIsNone$"}, says: "rows moved: <nil>",
			edits: []edit{{"delivery/ops/resize/move.go", "if err := record(tx, from, moved); err != nil {", "if err := record(tx, from, moved); false && err != nil {"}},
		},
		{
			name: "drain-forgotten", promise: "drain", breaks: "a worker whose row was purged takes part although it was drained",
			test: command{pkg: "coordinator", run: "^TestADrainRequestIsAnswered$"}, says: "does not say that it was asked to drain",
			edits: []edit{{"heartbeat/sql/workers.sql", "CASE WHEN @state = 'draining' THEN clock_timestamp() END", "NULL::timestamptz"}},
		},
		{
			name: "drain-for-ever", promise: "drain", breaks: "what was taken back goes on",
			test: command{pkg: "coordinator", run: "^TestADrainIsTakenBack$"}, says: "leases are spread",
			edits: []edit{{"coordinator/reconcile.go", "case asked, c.beater.Draining() && !known:", "case asked, c.beater.Draining():"}},
		},
		{
			name: "tail-blames-the-late", promise: "tail", breaks: "an order that P2 allows is called a fault",
			test: command{pkg: "cmd/postrider", run: "^TestTailAllowsWhatThePromiseAllows$"}, says: "FAULT",
			edits: []edit{{"cmd/postrider/tail.go", "judge := ledger.Config{Ordering: ledger.ByStream}", "judge := ledger.Config{Ordering: ledger.ByPartition}"}},
		},
		{
			name: "gap-of-a-reader", promise: "tail", breaks: "a reader goes past a message that was lost on the way",
			test: command{pkg: "cmd/postrider", run: "^TestAMessageThatIsLostOnTheWayIsReadAgain$"}, says: `received \["events.b"\], want`,
			edits: []edit{{"cmd/postrider/subscribe.go", "meta.Sequence.Consumer != received", "meta.Sequence.Consumer < received"}},
		},
		{
			name: "lost-is-on-its-way", promise: "show", breaks: "what is lost is under way for ever",
			test: command{pkg: "internal/ledger", run: "^TestOldestAndLatency$"}, says: "not received, want",
			edits: []edit{{"internal/ledger/drain.go", "record.committedAt < before.UnixNano()", "record.committedAt > before.UnixNano()"}},
		},
		{
			name: "stored-events-ignored", promise: "settings", breaks: "commands look for events where the workers do not",
			test: command{pkg: "cmd/postrider", run: "^TestEveryCommandReadsTheStoredEvents$"}, says: "is wanted",
			edits: []edit{
				{"cmd/postrider/database.go", "pgstore.ParseRelation(info.Events)", "pgstore.ParseRelation(cmp.Or(schema.DefaultEvents, info.Events))"},
				{"cmd/postrider/database.go", "import (\n", "import (\n\t\"cmp\"\n"},
			},
		},
		{
			name: "api-prefix-ignored", promise: "settings", breaks: "a worker asks another JetStream than that of its domain for its records",
			test: command{pkg: "cmd/postrider", run: "^TestEveryCommandAsksTheAPIOfTheContext$"}, says: "postrider run --once ",
			edits: []edit{{"delivery/natspub/wire/api.go", `cmp.Or(a.prefix, OwnAPI)+`, `cmp.Or(OwnAPI, a.prefix)+`}},
		},
		{
			name: "newer-tables-for-all", promise: "settings", breaks: "a program works on tables that say that it cannot",
			test: command{pkg: "outbox/schema", run: "^TestOtherVersions$"}, says: "Check of a newer schema: <nil>",
			edits: []edit{{"outbox/schema/check.go", "if from > latest {", "if from > version {"}},
		},
		{
			name: "events-change-under-workers", promise: "settings", breaks: "workers go on with other events than the database says",
			test: command{pkg: "cmd/postrider", run: "^TestTheEventsRelationIsStoredOnce$"}, says: `"shop.history" is stored, not "events"`,
			edits: []edit{{"outbox/schema/sql/settings.sql", "WHERE a.there AND a.living = 0", "WHERE a.there"}},
		},
	}
}

// worker returns the ways for a process to harm itself: ends blamed on the wrong message, memory never freed.
func worker() []mutant {
	return []mutant{
		{
			name: "connections-keep-events", promise: "P8", breaks: "each connection of a worker keeps the largest event that it read",
			test: command{pkg: "delivery/loop", run: "^TestAConnectionLetsGoOfALargeEvent$"}, says: "MiB are held before",
			edits: []edit{{"delivery/pgstore/rehydrate.go", "	s.sql.LetGo.Queue(batch, nil)\n", ""}},
		},
		{
			name: "inbox-unpacks-anything", promise: "rights", breaks: "a producer's own Content-Encoding fills a consumer's memory",
			test: command{pkg: "inbox", run: "^TestABodyThatBecomesTooLargeIsDead$"}, says: "as it is: applied",
			edits: []edit{{"inbox/transaction.go", "m.DecodeUpTo(int64(limit))", "m.DecodeUpTo(codec.MaxLimit)"}, {"inbox/transaction.go", "\"github.com/postrider/postrider/message\"", "\"github.com/postrider/postrider/message\"\n\t\"github.com/postrider/postrider/message/codec\""}},
		},
		{
			name: "inbox-waits-for-what-never-fits", promise: "P1", breaks: "a message that the inbox's tables refuse is taken for an outage, and tried for ever",
			test: command{pkg: "inbox", run: "^TestWhatTheTablesRefuseIsMalformed$"}, says: "SELECT count.* FROM",
			edits: []edit{{"inbox/errors.go", "answer, ok := errors.AsType[*pgconn.PgError](err); ok {\n\t\treturn slices", "answer, ok := errors.AsType[*pgconn.PgError](err); ok {\n\t\treturn false && slices"}},
		},
		{
			name: "recorded-at-any-zone", promise: "P1", breaks: "a time that no JSON holds keeps a failed message from being parked",
			test: command{pkg: "message", run: "^TestParseNamesWhatIsWrong$"}, says: "Outbox-Recorded-At .* gives <nil>",
			edits: []edit{{"message/message.go", "odd != nil || outOfYears(m.RecordedAt)", "odd == errors.ErrUnsupported"}},
		},
		{
			name: "inbox-counts-over", promise: "P1", breaks: "one odd row of a parked message stops all retries",
			test: command{pkg: "inbox", run: "^TestOddRowsOfParkedMessages$"}, says: "integer out of range",
			edits: []edit{{"inbox/migrations/00001_inbox.sql", "least(p.begun, 2147483646) + 1", "p.begun + 1"}},
		},
		{
			name: "projection-begins-anywhere", promise: "P1", breaks: "a projection that begins behind what was pruned starts, and never comes right",
			test: command{pkg: "projection", run: "^TestAProjectionBeginsBehindADroppedPart$"}, says: "a start without a beginning gives",
			edits: []edit{{"projection/gaps.go", "return h.first > applied+1 || h.first == 0 && h.last > applied", "return false"}},
		},
		{
			name: "begins-are-attempts", promise: "P7", breaks: "a dead message counts attempts that were none",
			test: command{pkg: "inbox", run: "^TestABeginBehindTheLimitIsNoAttempt$"}, says: "Attempts:4",
			edits: []edit{{"inbox/ended.go", "return min(begun-1, max(0, i.cfg.MaxAttempts-attempts))", "return begun - 1"}},
		},
		{
			name: "suspects-begun-together", promise: "P7", breaks: "a message is dead for the ends that another brought",
			test: command{pkg: "inbox", run: "^TestSuspectsAreBegunOneAfterAnother$"}, says: "runs beside that of stream",
			edits: []edit{{"inbox/migrations/00001_inbox.sql", "(suspects OR d.begun = 0", "(suspects OR d.begun >= 0"}},
		},
		{
			name: "inbox-decides-without-lock", promise: "P7", breaks: "two that bring a message at once both run it",
			test: command{pkg: "inbox", run: "^TestOneStreamIsDealtWithOneAfterTheOther$"}, says: "process s version 2|the copy is",
			edits: []edit{{"inbox/migrations/00001_inbox.sql", "      ORDER BY s.stream\n        FOR NO KEY UPDATE;", "      ORDER BY s.stream;"}},
		},
		{
			name: "inbox-begin-keeps-no-record", promise: "P7", breaks: "a consumer in another language makes an effect twice",
			test: command{pkg: "inbox", run: "^TestTheFunctionsRunAMessageOnce$"}, says: "no message without a result|time 1 gives",
			edits: []edit{{"inbox/migrations/00001_inbox.sql", "        IF verdict = 'run' THEN\n            PERFORM", "        IF verdict = 'never' THEN\n            PERFORM"}},
		},
		{
			name: "log-bell-as-truth", promise: "P6", breaks: "workers leave polls to a bell that may not be there",
			test: command{pkg: "cmd/postrider", run: "^TestPollsDeliverWithoutTheLog$"}, says: "events wait",
			edits: []edit{{"cmd/postrider/settings.go", "PollInterval: f.Interval,", "PollInterval: max(f.Interval, time.Minute),"}},
		},
		{
			name: "log-bell-keeps-the-log", promise: "settings", breaks: "the server keeps its log for as long as a worker listens",
			test: command{pkg: "delivery/walbell", run: "^TestNoLogIsKept$"}, says: "the log is kept",
			edits: []edit{{"delivery/walbell/session.go", "WALFlushPosition: s.heard,", "WALFlushPosition: 1,"}},
		},
		{
			name: "log-bell-as-standby", promise: "settings", breaks: "commits are taken for safe because the bell heard of them",
			test: command{pkg: "delivery/walbell", run: "^TestItIsNoSynchronousStandby$"}, says: "the slot is held",
			edits: []edit{{"delivery/walbell/look.go", `strings.Contains(names, "*"), `, ``}},
		},
	}
}

// shows returns the ways to make a show that proves less than it says.
func shows() []mutant {
	return []mutant{
		{
			name: "show-knows-no-lag", promise: "show", breaks: "a mishap counts as over while a committed event still waits",
			test: command{pkg: "internal/chaos", run: "^TestWhatNeverComesIsLost$"}, says: "the verdict is .*events are missing",
			edits: []edit{{"internal/chaos/engine.go", "if look.Waiting > e.config.Behind {", "if false && look.Waiting > e.config.Behind {"}},
		},
		{
			name: "show-freezes-nobody", promise: "show", breaks: "a worker is said to be frozen, and goes on",
			test: command{pkg: "internal/chaos", run: "^TestWorkersAreStruckAndNothingIsLost$"}, says: "not all partitions have another owner",
			edits: []edit{{"internal/chaos/turns.go", "return struck, c.Freeze(victim.Number)", "return struck, nil"}},
		},
		{
			name: "show-draws-from-one-source", promise: "show", breaks: "the seed repeats the order only while each mishap draws as many numbers",
			test: command{pkg: "internal/chaos", run: "^TestTheSeedRepeatsTheOrder$"}, says: "seed 7 gave",
			edits: []edit{{"internal/chaos/turns.go", "return next, rand.New(rand.NewPCG(t.seed, t.number))", "return next, t.order"}},
		},
		{
			name: "show-always-well", promise: "show", breaks: "a broken verdict ends with status 0",
			test: command{pkg: "cmd/postrider", run: "^TestALostEventBreaksTheVerdict$"}, says: "<nil>:",
			edits: []edit{{"cmd/postrider/showscreen.go", "	return errSilent\n", "	return nil\n"}},
		},
		{
			name: "show-forgets-flags", promise: "show", breaks: "the workers of a show do without the flags that were given",
			test: command{pkg: "cmd/postrider", run: "^TestAShowEndsWithAVerdict$"}, says: "status 1",
			edits: []edit{{"cmd/postrider/show.go", "}, v.given...),", "}, v.given[:0]...),"}},
		},
	}
}

// verifications returns the ways to make a verification that finds less than it says, or leaves more; the first ones break the product, which
// it has to find.
func verifications() []mutant {
	whole := command{pkg: "cmd/postrider", run: "^TestAVerificationFindsNothingAndLeavesNothing$"}
	return []mutant{
		{
			name: "verified-blind-fence", promise: "P3, P4", breaks: "a batch that comes between a takeover's read and its fence is passed over, on somebody's servers",
			test: whole, says: `"duplicates":[1-9].*"ok":false`, limit: 6 * time.Minute,
			edits: []edit{blindFence},
		},
		{
			name: "verified-last-record-only", promise: "P4", breaks: "of the batches that an owner did not mark its heir knows the last one alone, on somebody's servers",
			test: whole, says: `"duplicates":[1-9].*"ok":false`, limit: 6 * time.Minute,
			edits: []edit{lastRecordOnly},
		},
		{
			name: "verified-naive-cursor", promise: "P1, P2", breaks: "commits that others pass are forgotten, on somebody's servers", test: whole, says: `"ok":false`, limit: 6 * time.Minute,
			edits: []edit{{advance, "WHEN p.writers = '{}'  ", "WHEN true              "}},
		},
		{
			name: "verified-no-expectation", promise: "P3, P4", breaks: "what comes late from a former owner is stored, on somebody's servers", test: whole, says: `"duplicates":[1-9].*"ok":false`, limit: 6 * time.Minute,
			edits: []edit{blindBatch},
		},
		{
			name: "verify-leaves-its-schema", promise: "verify", breaks: "the schema stays", test: whole, says: "left or changed: schema postrider_verify_", limit: 6 * time.Minute,
			edits: []edit{{"cmd/postrider/scratch.go", "		if x.schema {", "		if false && x.schema {"}},
		},
		{
			name: "verify-removes-others-schema", promise: "verify", breaks: "a schema that was there is removed",
			test: command{pkg: "cmd/postrider", run: "^TestAVerificationTellsWhatItLeaves$"}, says: "the first one's schema",
			edits: []edit{{"cmd/postrider/scratch.go", "	x.pool = pool\n", "	x.pool, x.schema = pool, true\n"}},
		},
		{
			name: "verify-proves-by-an-interruption", promise: "verify", breaks: "one that was interrupted ends with status 0",
			test: command{pkg: "cmd/postrider", run: "^TestAVerificationThatIsInterruptedLeavesNothing$"}, says: "status 0",
			edits: []edit{{"cmd/postrider/verify.go", "v.more.Interrupted = s.ctx.Err() != nil", "v.more.Interrupted = false"}},
		},
		{
			name: "verify-cuts-nothing", promise: "verify", breaks: "connections that are said to be cut go on",
			test: command{pkg: "internal/chaos", run: "^TestACutBreaksWhatGoesThrough$"}, says: "was not cut",
			edits: []edit{{"internal/chaos/proxy.go", "			l.reset()\n			broken++", "			broken++"}},
		},
		{
			name: "verify-loses-what-is-late", promise: "verify", breaks: "batches that are to come late never come",
			test: command{pkg: "internal/chaos", run: "^TestWhatIsKeptArrivesBeforeWhatReliesOnIt$"}, says: "there came", limit: time.Minute,
			edits: []edit{{"internal/chaos/late.go", "	return !lost\n", "	return !lost && own == nil\n"}},
		},
		{
			name: "stored-stream-unread", promise: "P2", breaks: "a second outbox's worker publishes to the first one's stream",
			test: command{pkg: "cmd/postrider", run: "^TestASecondOutboxIsKnownByItsSchemaAlone$"}, says: "is wanted", limit: time.Minute,
			edits: []edit{{"worker/worker.go", "cmp.Or(w.cfg.Stream.Name, w.info.Stream, streams.DefaultStream)", "cmp.Or(w.cfg.Stream.Name, streams.DefaultStream)"}},
		},
		{
			name: "stored-stream-overruled", promise: "P2", breaks: "workers of one outbox publish to two streams",
			test: command{pkg: "cmd/postrider", run: "^TestASecondOutboxIsKnownByItsSchemaAlone$"}, says: "status 1, want 2", limit: time.Minute,
			edits: []edit{{"outbox/schema/check.go", "	if asked == \"\" || stored == \"\" || asked == stored {", "	if true {"}},
		},
		{
			name: "control-prefix-at-any-time", promise: "P4", breaks: "records of a former prefix of the control subjects are looked for in vain",
			test: command{pkg: "cmd/postrider", run: "^TestTheControlPrefixIsStoredBeforeTheFirstWorker$"}, says: "is not stored|status 0, want 2",
			edits: []edit{{"outbox/schema/sql/settings.sql", "SELECT EXISTS (SELECT FROM {schema}.outbox_partitions AS p WHERE p.lease_epoch > 0)\n", "SELECT false\n"}},
		},
	}
}
