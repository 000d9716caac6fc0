package main

// resizes returns the ways for a resize to forget the earlier state.
func resizes() []mutant {
	const (
		resize = "delivery/ops/resize/move.go"
		epochs = "^TestAnEpochOutlivesItsPartition$"
		healed = "^TestWhatWasPublishedBeforeAResizeIsHealed$"
		pauses = "^TestAPauseOutlivesAResize$"
		frozen = "^TestAFrozenOutboxGivesNoLeases$"
	)
	return []mutant{
		{
			name: "epoch-forgotten", promise: "P3, P5", breaks: "a partition that comes back begins at epoch 0",
			test: command{pkg: "delivery/loop", run: epochs}, says: "partitions were refused|the lowest epoch is",
			edits: []edit{{leases, "coalesce(b.lease_epoch, h.epoch, 0)", "0"}},
		},
		{
			name: "refused-again-and-again", promise: "P5", breaks: "an owner below the stream's epoch is refused once for each epoch",
			test: command{pkg: "delivery/loop", run: "^TestARefusedOwnerGoesAboveTheRecord$"}, says: "waited in vain",
			edits: []edit{{"delivery/loop/take.go", "return errors.Join(err, t.within(context.WithoutCancel(ctx), func(ctx context.Context) error { return t.store.Raise(ctx, t.lease, fenced.Epoch) }))", "return err"}},
		},
		{
			name: "former-not-healed", promise: "P1", breaks: "what was published before a resize is not healed",
			test: command{pkg: "delivery/loop", run: healed}, says: "is stored as",
			edits: []edit{{"delivery/loop/heal.go", "if len(ids) > 0 {", "if false {"}},
		},
		{
			name: "former-loss-unnoticed", promise: "P1", breaks: "what the stream lost of a partition that is no more goes unnoticed",
			test: command{pkg: "delivery/loop", run: "^TestTheLossOfAFormerPartitionIsNoticed$"}, says: "healed: gaps .*, want 0 not in the stream",
			edits: []edit{{"delivery/loop/heal.go", "lost = lost || kept[i] < int64(f.Fence)", "lost = lost && kept[i] < int64(f.Fence)"}},
		},
		{
			name: "positions-forgotten", promise: "P1", breaks: "a partition that comes back does not know what the stream held of it",
			test: command{pkg: "delivery/loop", run: "^TestAPartitionThatComesBackKnowsItsLoss$"}, says: "the loss went unnoticed",
			edits: []edit{{leases, "coalesce(b.fence_sequence, h.known, 0)", "0"}},
		},
		{
			name: "healed-where-it-was", promise: "P2", breaks: "lost messages come back in the partition that published them, whatever its streams are",
			test: command{pkg: "delivery/loop", run: healed}, says: "is stored as|came back in partition",
			edits: []edit{{"delivery/pgstore/sql/heal.sql", "coalesce({routing_key}, e.stream_id), 'UTF8')), s.partition_count)", "coalesce({routing_key}, e.stream_id), 'UTF8')), 1)"}},
		},
		{
			name: "gaps-by-place", promise: "P8", breaks: "gaps detect believes what lies at a position, or beyond the stream's end",
			test: command{pkg: "delivery/ops/gaps", run: "^TestAStreamMadeAnewIsNoProof$"}, says: "events are not in the stream, want 190",
			edits: []edit{{"delivery/ops/gaps/history.go", "if waits || g.Position == 0 ||", "if waits || g.Position > d.extent.Last || g.Position == 0 ||"}},
		},
		{
			name: "gaps-dropped-by-order", promise: "P8", breaks: "gaps detect calls lost what a stream dropped by order",
			test: command{pkg: "delivery/ops/gaps", run: "^TestWhatAStreamDropsByOrderIsExplained$"}, says: "events are not in the stream, want 0",
			edits: []edit{{"delivery/ops/gaps/history.go", "(drops || d.extent.First <= g.Position)", "false"}},
		},
		{
			name: "gaps-purged-silently", promise: "P8", breaks: "gaps detect says nothing of what was purged",
			test: command{pkg: "delivery/ops/gaps", run: "^TestWhatAStreamDropsByOrderIsExplained$"}, says: "events are not in the stream, want 95",
			edits: []edit{{"delivery/ops/gaps/history.go", "(drops || d.extent.First <= g.Position)", "true"}},
		},
		{
			name: "pause-mixed", promise: "P8", breaks: "a resize mixes paused streams with others",
			test: command{pkg: "delivery/loop", run: pauses}, says: "resized with two of four partitions paused",
			edits: []edit{{resize, "if len(ids) == 0 || len(ids) == all {", "if len(ids) <= all {"}},
		},
		{
			name: "pause-ended", promise: "P8", breaks: "a resize ends a pause of everything",
			test: command{pkg: "delivery/loop", run: pauses}, says: "with everything paused [0-9]+ of 8 events wait",
			edits: []edit{{resize, "if paused != nil {", "if paused == nil {"}},
		},
		{
			name: "freeze-of-the-dead", promise: "P5", breaks: "what a dead resize froze stays frozen",
			test: command{pkg: "lease", run: frozen}, says: "at the end: frozen true|[0-9] leases at the end, want 2",
			edits: []edit{{"lease/sql/leases.sql", "THEN EXISTS (SELECT", "THEN true OR EXISTS (SELECT"}},
		},
		{
			name: "leases-of-the-dead", promise: "P5", breaks: "what a dead resize leased stays its",
			test: command{pkg: "lease", run: frozen}, says: "[0-9] leases at the end, want 2",
			edits: []edit{{leases, "SELECT z.frozen_by FROM freezer AS z WHERE NOT z.holds", "SELECT z.frozen_by FROM freezer AS z WHERE false"}},
		},
	}
}

// olderDatabase returns the ways to fail where the stream knows more than the database.
func olderDatabase() []mutant {
	return []mutant{
		{
			name: "resize-unseen-by-snapshots", promise: "P1", breaks: "a producer above READ COMMITTED puts an event into a partition that is no more",
			test: command{pkg: "delivery/loop", run: "^TestAnAppendThatIsOlderThanAResizeIsRefused$"}, says: "repeatable read, SELECT outbox_append.*: <nil>",
			edits: []edit{{"outbox/schema/migrations/00002_functions.sql", "PERFORM FROM {schema}.outbox_settings FOR SHARE;", "PERFORM FROM {schema}.outbox_settings;"}},
		},
		{
			name: "resize-tries-once", promise: "P8", breaks: "a resize beside a long transaction fails at once, and does not say which",
			test: command{pkg: "delivery/loop", run: "^TestProducersGoOnBesideAResizeThatWaits$"}, says: "it is refused with",
			edits: []edit{{"delivery/ops/resize/move.go", "if !maintenance.Contended(err) {", "if true {"}},
		},
		{
			name: "resize-without-a-fence", promise: "P4", breaks: "a resize goes on where workers refuse the stream, and what is under way is published twice",
			test: command{pkg: "cmd/postrider", run: "^TestDoctorLooksAsTheWorkersPublish$"}, says: "status 0, want 2",
			edits: []edit{{"cmd/postrider/resize.go", "if err != nil { // workers refuse it, too", "if stream == nil { // as workers refuse it"}},
		},
		{
			name: "resize-of-an-older-database", promise: "P5", breaks: "a resize right after a failover is refused by the stream's epochs",
			test: command{pkg: "cmd/postrider", run: "^TestResizeOfADatabaseOlderThanItsStream$"}, says: "partitions resize: all 4 partitions are here",
			edits: []edit{{"delivery/ops/resize/resize.go", "|| attempt > 1 {", "|| attempt > 0 {"}},
		},
		{
			name: "resize-by-anybody", promise: "monitor", breaks: "a monitor resizes for those who may only look, if the guard before it fails",
			test: command{pkg: "ui", run: "^TestResizesAreRefused$"}, says: "status 200, want 403",
			edits: []edit{{"ui/act/resize.go", "if err == nil && m.Resizes == nil {", "if err = nil; m.Resizes == nil {"}},
		},
		{
			name: "resize-twice", promise: "monitor", breaks: "a form from before a resize undoes it",
			test: command{pkg: "ui", run: "^TestPartitionsAreResizedFromThePage$"}, says: "status 303, want 409",
			edits: []edit{{"delivery/ops/resize/move.go", "o.From != 0 && o.From != done.From", "false"}},
		},
		{
			name: "resize-given-up-and-kept", promise: "P5", breaks: "a resize that failed keeps the partitions it had taken",
			test: command{pkg: "ui", run: "^TestResizesByTheAPI$"}, says: "partitions are held, want the worker's two",
			edits: []edit{{"delivery/ops/resize/resize.go", "errors.Join(r.giveBack(ctx), thaw())", "thaw()"}},
		},
		{
			name: "resize-heals", promise: "P1, P8", breaks: "a resize has what the stream lost published again, whatever the workers are told",
			test: command{pkg: "delivery/loop", run: "^TestAResizeQueuesNothingThatTheStreamLost$"}, says: "16 events are queued again",
			edits: []edit{{"delivery/ops/resize/resize.go", "Lost: delivery.LostReport", "Lost: delivery.LostRepublish"}},
		},
		{
			name: "resize-by-an-old-number", promise: "P5", breaks: "a resize behind another one waits for partitions that are not there",
			test: command{pkg: "delivery/loop", run: "^TestAResizeGoesByTheNumberThatIs$"}, says: "it says .*not all workers gave back",
			edits: []edit{{"delivery/ops/resize/resize.go", "now != int(r.from)", "false"}},
		},
		{
			name: "resize-made-and-failed", promise: "P8", breaks: "a resize that was made is told as failed",
			test: command{pkg: "delivery/loop", run: "^TestAResizeThatWasMadeHasNotFailed$"}, says: "1 sessions cut off, .*terminating connection",
			edits: []edit{{"delivery/ops/resize/resize.go", "if err == nil && ending != nil {", "if false {"}},
		},
		{
			name: "resize-without-its-asker", promise: "P8", breaks: "a resize begins although who asked was told that it did not",
			test: command{pkg: "delivery/loop", run: "^TestAResizeWithoutItsAskerIsGivenUp$"}, says: "it ended with context deadline exceeded",
			edits: []edit{{"delivery/ops/resize/runner.go", "\t\t\tgiveUp()\n", ""}},
		},
		{
			name: "alone-and-resizing", promise: "P5", breaks: "a worker alone offers a resize, which would end it",
			test: command{pkg: "worker", run: "^TestTheMonitorEndsWithTheWorker$"}, says: "alone true: the monitor answers 200",
			edits: []edit{{"worker/monitor.go", "if !w.cfg.Alone {", "if true {"}},
		},
	}
}
