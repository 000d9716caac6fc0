package main

// decided ends claims at the proven watermark.
const decided = "(SELECT CASE WHEN @proven::boolean THEN current_setting('{safe}')::bigint ELSE @up_to END)"

const claimFile = "delivery/pgstore/sql/claim.sql"

// fenceTest is a test of the fence on a stream of one server; three servers show no more of a mutant.
func fenceTest(name string) command {
	return command{pkg: "delivery/natspub", run: "^" + name + "$/^R1$"}
}

const (
	fenced = "delivery/natspub/fenced.go"
	step   = "delivery/natspub/step.go"

	takeover  = "TestATakeoverFencesTheOldOwner"
	lateBytes = "TestABatchThatArrivesAfterTheTakeoverIsRefused"
)

// A verification must find these, too.
var (
	blindFence = edit{
		fenced,
		"\tans := t.ask(ctx, msg)\n",
		"\tmsg.Header.Del(nats.ExpectedLastSubjSeqHdr)\n\tans := t.ask(ctx, msg)\n",
	}
	blindBatch     = edit{step, "\treturn r.next(kindBatch, id, 0, []part{r.named})\n", "\tm := r.next(kindBatch, id, 0, []part{r.named})\n\tm.Header.Del(nats.ExpectedLastSubjSeqHdr)\n\treturn m\n"}
	lastRecordOnly = edit{"delivery/loop/take.go", "at, t.standing.Kept); err != nil {", "t.standing.Kept, t.standing.Kept); err != nil {"}
)

// stream returns the ways to store forbidden messages, or to forget stored ones.
func stream() []mutant {
	return []mutant{
		{
			name: "no-expectation", promise: "P3, P4", breaks: "batches expect nothing of the partition's last record",
			test: fenceTest(lateBytes), says: "stored .*, want each once",
			edits: []edit{blindBatch},
		},
		{
			name: "takeover-only-reads", promise: "P3", breaks: "a new owner reads and writes no fence",
			test: fenceTest(takeover), says: "the standing is|the old owner's message",
			edits: []edit{{
				fenced,
				"delivery.FencedError{Epoch: found.Epoch, Ours: t.lease.Epoch}\n\t}\n",
				"delivery.FencedError{Epoch: found.Epoch, Ours: t.lease.Epoch}\n\tdefault:\n" +
					"\t\tt.kept, t.fence, t.parts, t.lives = at, at, found.located(at), reborn(found.Lives, t.known.Life, kept)\n\t\treturn true, nil\n\t}\n",
			}},
		},
		{
			name: "blind-fence", promise: "P3, P4", breaks: "a new owner's fence expects nothing",
			test: fenceTest("TestATakeoverKnowsWhatIsStoredBehindItsRead"), says: "the standing is|did not read again",
			edits: []edit{blindFence},
		},
		{
			name: "fence-does-not-copy", promise: "P4", breaks: "a fence forgets what the record before it lists",
			test: fenceTest(takeover), says: `the standing is .*Delivered:\[\]`,
			edits: []edit{{fenced, "Parts: found.located(at),", "Parts: nil,"}},
		},
		{
			name: "record-without-events", promise: "P4", breaks: "a takeover does not say what is stored",
			test: command{pkg: "delivery/loop", run: "^TestAnHeirMarksWhatTheStreamHolds$/^in_batches$"}, says: "stored .*, want ",
			edits: []edit{{fenced, "Delivered: delivered(s.parts)}", "Delivered: nil}"}},
		},
		{
			name: "last-record-only", promise: "P4", breaks: "of the batches that an owner did not mark its heir knows the last one alone",
			test: command{pkg: "delivery/loop", run: "^TestAnHeirMarksAllBatchesThatWereNotMarked$"}, says: "stored .*, want ",
			edits: []edit{lastRecordOnly},
		},
		{
			name: "lost-tail-not-compared", promise: "P1", breaks: "a stream that lost messages goes unnoticed",
			test: command{pkg: "delivery/loop", run: "^TestLostMessagesAreHealed$/^purged,_seen_by_the_heir$"}, says: "waited in vain|the loss was not counted",
			edits: []edit{{"delivery/loop/take.go", "if err != nil || !lost && !former {", "if true || !lost && !former {"}},
		},
		{
			name: "healed-beside-a-replay", promise: "P4", breaks: "what a replay queues while a lost stream is healed is queued twice",
			test: command{pkg: "delivery/loop", run: "^TestWhatAReplayQueuedMeanwhileIsNotHealed$"}, says: "want one lost and none queued",
			edits: []edit{{"delivery/pgstore/heal.go", "\ts.sql.HealOwn.Queue(batch, pg.Args{\"partition\": l.Partition})\n", ""}},
		},
		{
			name: "healed-by-the-first-page", promise: "P1", breaks: "the first page of a healing ends the loss",
			test: command{pkg: "delivery/loop", run: "^TestALongHistoryIsHealedInPages$"}, says: "the heir saw no loss",
			edits: []edit{{"delivery/pgstore/sql/heal.sql", "AND (SELECT count(*) FROM page) < @most),", "AND @most > 0),"}},
		},
		{
			name: "healed-as-before", promise: "P8", breaks: "what was published once more, and is on another page, comes back as what it was first",
			test: command{pkg: "delivery/loop", run: "^TestALongHistoryIsHealedInPages$"}, says: "the first page healed .Lost:100",
			edits: []edit{{"delivery/pgstore/sql/heal.sql", "WHERE d.generations IS NOT NULL AND d.partition_key = @partition", "WHERE false AND d.partition_key = @partition"}},
		},
		{
			name: "scheduled-above-watermark", promise: "P2", breaks: "a scheduled event whose time has come passes writers below it",
			test: command{pkg: "delivery/loop", run: "^TestAScheduledEventWaitsForWritersBelowIt$"}, says: "while a writer below was under way",
			edits: []edit{
				{claimFile, "            AND r.stream_id = head.stream_id\n            AND r.global_sequence <= " + decided, "            AND r.stream_id = head.stream_id\n            AND 0 <= " + decided},
				{claimFile, "                    AND i.global_sequence <= " + decided, "                    AND 0 <= " + decided},
			},
		},
		{
			name: "identity-not-compared", promise: "P1", breaks: "an event under a reused sequence is taken for the one stored",
			test: command{pkg: "delivery/loop", run: "^TestAForgetfulDatabaseIsNotConfused$"}, says: "stored .*, want ",
			edits: []edit{{"delivery/loop/take.go", "return n.Event.Valid && delivery.IdentityOf(n.Event.UUID) != n.Identity", "return false"}},
		},
	}
}

// room returns the ways to remove records that are needed, and to blame a message for a stream that is full of batches.
func room() []mutant {
	return []mutant{
		{
			name: "horizon-without-writers", promise: "metrics", breaks: "a transaction that has written and idles holds vacuum back unseen",
			test: command{pkg: "delivery/pgstore", run: "^TestHorizonSeesAnOpenTransaction$"}, says: "with an open transaction: .Transactions:[0-2]",
			edits: []edit{{"delivery/pgstore/sql/statistics.sql", ", (a.backend_xid)", ""}},
		},
		{
			name: "trim-of-unmarked", promise: "P4", breaks: "records are removed of which the database does not know",
			test: command{pkg: "delivery/loop", run: "^TestRecordsOfBatchesThatAreNotMarkedStay$"}, says: "stored .*, want ",
			edits: []edit{{"delivery/loop/trim.go", "return f.recorded >= last || f.state", "return true || f.state"}},
		},
		{
			name: "trim-one-too-many", promise: "P4", breaks: "a trim removes the record up to which the database knows",
			test: fenceTest("TestATrimLeavesWhatIsNotKnown"), says: "records lie at",
			edits: []edit{{"delivery/natspub/trim.go", "f.api.Purge(ctx, subject, last, 0)", "f.api.Purge(ctx, subject, last+1, 0)"}},
		},
		{
			name: "trim-above-the-last", promise: "P4", breaks: "a trim removes a partition's last record, too",
			test: command{pkg: "delivery/natspub", run: "^TestATrimOfAFormerOwnerLeavesTheHeirs$"}, says: "records lie at",
			edits: []edit{{"delivery/natspub/trim.go", "last = min(last, newest.Sequence)", "_ = newest"}},
		},
		{
			name: "gaps-older-copy", promise: "P8", breaks: "gaps detect takes what an older copy of the stream lacks for dropped by order",
			test: command{pkg: "delivery/ops/gaps", run: "^TestWhatAStreamDropsByOrderIsExplained$"}, says: "restored: 0 events are not in the stream, want 1",
			edits: []edit{{"delivery/ops/gaps/history.go", "return position == d.next, err", "return false, err"}},
		},
		{
			name: "trim-of-the-front", promise: "gaps", breaks: "the message goes by which a look for gaps tells that nothing was dropped from the stream's front",
			test: command{pkg: "delivery/natspub", run: "^TestTheRecordThatBeginsTheStreamStays$"}, says: "want the first one to stay",
			edits: []edit{{"delivery/natspub/trim.go", "const begins = 1", "const begins = 0"}},
		},
		{
			name: "crowd-is-poison", promise: "P6", breaks: "a stream that takes no more batches is taken for one that refuses a message",
			test: command{pkg: "delivery/natspub", run: "^TestAMessageWaitsForRoomInTheStream$/^R1$"}, says: "it did not wait",
			edits: []edit{{"delivery/natspub/wire/acks.go", "o.to.receive(Answer{Err: errTooMany})", "_ = ans"}},
		},
	}
}

// client returns the ways to let the client send unknown messages, or send out of turn.
func client() []mutant {
	return []mutant{
		{
			name: "an-event-for-the-stream", promise: "P2", breaks: "an event is accused that a stream refuses which takes no records, either",
			test: command{pkg: "delivery/natspub", run: "^TestAMessageTooLargeForAnUnfitStreamIsNotAccused$"}, says: "message 0: ",
			edits: []edit{{step, "if r.unfit(ctx) { // no message's fault", "if false {"}},
		},
		{
			name: "a-lost-subject-unnamed", promise: "P8", breaks: "a stream that lets go of the subject is taken for a broker that does not answer",
			test: command{pkg: "delivery/natspub", run: "^TestALostSubjectIsNobodysFault$"}, says: "message 0: ",
			edits: []edit{{step, "errors.Is(err, nats.ErrNoResponders) && r.unfit(ctx)", "errors.Is(err, nats.ErrNoResponders) && false"}},
		},
		{
			name: "accused-unseen", promise: "P2", breaks: "an event is accused where nothing is known of the stream",
			test: command{pkg: "delivery/natspub", run: "^TestAnUnseenStreamIsNobodysFault$"}, says: "message 0: ",
			edits: []edit{{step, "if err = cmp.Or(err, now.Unfit); err == nil {", "if err = now.Unfit; err == nil {"}},
		},
		{
			name: "sent-behind-unknown", promise: "P2", breaks: "the other half of a batch is sent behind one whose outcome is unknown",
			test: command{pkg: "delivery/natspub", run: "^TestARunThatFailedSendsNothingMore$"}, says: "are sent behind an unknown outcome",
			edits: []edit{{"delivery/natspub/step.go", "\tr.failed = true\n", ""}},
		},
		{
			name: "reconnect-buffer", promise: "P2, P4", breaks: "what was refused while disconnected is sent later",
			test: command{pkg: "delivery/natspub", run: "^TestALostConnectionLeavesTheOutcomeUnknown$"}, says: "refused while disconnected appeared later",
			edits: []edit{
				{"delivery/natspub/wire/connect.go", "\t\tnats.ReconnectBufSize(-1),\n", ""},
				{fenced, "if nc.Opts.ReconnectBufSize >= 0 {", "if false {"},
			},
		},
		{
			name: "buffer-allowed", promise: "P4", breaks: "a connection with a reconnect buffer is accepted",
			test: command{pkg: "delivery/natspub", run: "^TestABufferingConnectionIsRefused$"}, says: "a connection with a reconnect buffer",
			edits: []edit{{fenced, "if nc.Opts.ReconnectBufSize >= 0 {", "if false {"}},
		},
		{
			name: "id-without-generation", promise: "P1", breaks: "the duplicate window swallows what a later shadow replay sends",
			test: command{pkg: "delivery/natspub", run: "^TestTheSameMessageIsStoredOnce$"}, says: "another generation was taken for a duplicate",
			edits: []edit{{"delivery/natspub/wire/writer.go", "if m.Generation == 0 {", "if m.Generation >= 0 {"}},
		},
		{
			name: "sent-behind-unanswered", promise: "P2", breaks: "message by message the next one is sent behind one that nobody answered",
			test: command{pkg: "delivery/natspub", run: "^TestPartitionOrderWaitsForEachAnswer$"}, says: "stored are ",
			edits: []edit{{"delivery/natspub/single.go", "\t\tif r.waits(i) {\n\t\t\tcontinue\n", "\t\tif r.waits(i) && !r.failed {\n\t\t\tcontinue\n"}},
		},
		{
			name: "correlation-unsent", promise: "headers", breaks: "what a producer says beside an event does not travel",
			test: command{pkg: "delivery/natspub", run: "^TestWhatProducersSayIsSent$"}, says: "Outbox-Correlation-Id is",
			edits: []edit{{"delivery/natspub/wire/header.go", "if e.CorrelationID != \"\" {", "if false {"}},
		},
		{
			name: "own-headers-unchecked", promise: "headers", breaks: "a producer's header steers the server",
			test: command{pkg: "delivery/natspub", run: "^TestHeadersThatSteerTheServerAreRefused$/^OUTBOX"}, says: "outcome \\{Kind",
			edits: []edit{{"delivery/natspub/wire/header.go", "if len(e.Headers) == 0 || !h.all() {", "if true {"}},
		},
		{
			name: "c1-passes", promise: "headers", breaks: "a control character of a producer reaches a reader's terminal",
			test: command{pkg: "delivery/natspub", run: "^TestWhatProducersSayIsSent$"}, says: "X-Note is",
			edits: []edit{{"message/header.go", "!strings.ContainsFunc(value, unicode.IsControl)", "strings.IndexFunc(value, func(r rune) bool { return r < ' ' }) < 0"}},
		},
	}
}

// singles returns the ways to lose or to double messages stored one by one.
func singles() []mutant {
	const single = "delivery/natspub/single.go"
	of := func(run string) command { return command{pkg: "delivery/natspub", run: "^" + run + "$"} }
	return []mutant{
		{
			name: "single-without-expectation", promise: "P3, P4", breaks: "a message of a former owner is stored behind a takeover",
			test: of("TestASingleThatArrivesBehindATakeoverIsRefused"), says: "the stream holds",
			edits: []edit{{single, "\t\tw.Set(nats.ExpectedLastSubjSeqHdr, strconv.FormatUint(r.session.last, 10))\n\t\tw.Set(jetstream.ExpectedLastSubjSeqSubjHeader, r.subject)\n", "\t\t_, _, _ = strconv.Itoa, nats.ExpectedLastSubjSeqHdr, jetstream.ExpectedLastSubjSeqSubjHeader\n"}},
		},
		{
			name: "batches-where-none-are-taken", promise: "P6", breaks: "a worker goes on with batches on a stream that takes none any more",
			test: of("TestBatchesAreTurnedOffAndOn"), says: "without batches",
			edits: []edit{{"delivery/natspub/fenced.go", "f.seen.batches.Store(batches)", "f.seen.batches.Store(batches || f.seen.batches.Load())"}},
		},
		{
			name: "another-streams-answer", promise: "P6", breaks: "a leaf node's stream on the same subjects has partitions taken anew without end",
			test: command{pkg: "delivery/natspub/wire", run: "^TestAnotherStreamsAnswerIsNotTaken$"}, says: "want that of its own stream",
			edits: []edit{{"delivery/natspub/wire/acks.go", "if Refusal(ans.Err) == codeStreamNotMatch {", "if Refusal(ans.Err) == codeStreamNotMatch && false {"}},
		},
		{
			name: "another-streams-refusal", promise: "P6", breaks: "a leaf node's stream that takes no batches holds all partitions up",
			test: fenceTest("TestAnotherStreamsRefusalOfBatchesIsNotOurs"), says: "atomic publish is disabled",
			edits: []edit{{"delivery/natspub/wire/acks.go", "&& !a.ours(ctx) {", "&& false {"}},
		},
		{
			name: "expectation-has-no-room", promise: "P7", breaks: "a message at the server's limit holds its partition up",
			test: of("TestMessagesAtTheServersLimit"), says: "below the limit: ",
			edits: []edit{{"delivery/natspub/size.go", "return names + 3*len(\": \\r\\n\") + sequence + len(r.subject) + len(r.cfg.Stream)", "return names*0 + sequence*0"}},
		},
		{
			name: "places-without-room", promise: "P6", breaks: "a record of many places is larger than the stream takes, and its partition stands",
			test: of("TestRecordsOfPlacesFitTheStream"), says: "message size exceeds",
			edits: []edit{{single, "r.roomForRecord(eachPlace)", "r.roomForRecord(eachRecord)"}},
		},
		{
			name: "earlier-waits-for-later", promise: "P2", breaks: "a message that could go waits behind a later one of its stream that failed",
			test: of("TestNothingOvertakesARefusedMessage"), says: "outcomes ",
			edits: []edit{{step, "is && failed < i {", "is && failed != i {"}},
		},
		{
			name: "announced-and-not-met", promise: "P4", breaks: "what was stored one by one and not closed is stored again",
			test: of("TestWhatNobodyClosedIsFound"), says: "the heir found",
			edits: []edit{{"delivery/natspub/fenced.go", "case p.After > 0:", "case p.After > 0 && p.First > 0:"}},
		},
		{
			name: "torn-batch-is-whole", promise: "P1", breaks: "whoever takes a partition believes that the stream holds what a batch's record names",
			test: of("TestATornBatchIsNotStoredTwice"), says: "are stored; the standing is kept",
			edits: []edit{{"delivery/natspub/fenced.go", "case p.Batch:", "case p.Batch && p.After > 0:"}},
		},
		{
			name: "torn-batch-is-accepted", promise: "P1", breaks: "an owner believes that its batch is whole where the record is there",
			test: of("TestATornBatchIsNotStoredTwice"), says: "of a batch that has no room",
			edits: []edit{{step, "_, end, err = r.stored(ctx, found.located(at)[0])", "end = found.end(at)"}},
		},
		{
			name: "purged-batch-is-torn", promise: "P4", breaks: "messages that somebody removed count as never stored",
			test: of("TestAPurgeOfEventsTearsNoBatch"), says: "want all three",
			edits: []edit{{single, "\t\tif within {\n\t\t\tother, behind = m.Sequence, true\n", "\t\tif true {\n\t\t\tother, behind = middle, true\n"}},
		},
		{
			name: "single-counts-before-it-is-closed", promise: "P1", breaks: "a message is published for the relay before a record names it",
			test: of("TestWhatNobodyClosedIsFound/^the_closing_record's_answer_is_lost"), says: "without an answer",
			edits: []edit{{single, "\tif !ok {\n\t\treturn\n\t}\n\tr.session.kept", "\t_ = ok\n\tr.session.kept"}},
		},
		{
			name: "each-reads-by-itself", promise: "P5", breaks: "heirs of many partitions read the same messages, each for itself",
			test: of("TestHeirsReadOnceForAllPartitions"), says: "requests for",
			edits: []edit{{single, "if first+chunkOfWalk > before {", "if true || first+chunkOfWalk > before {"}},
		},
		{
			name: "met-and-not-closed", promise: "P4", breaks: "a later record does not name what a takeover has met, which a failover may forget",
			test: of("TestWhatNobodyClosedIsFound"), says: "the records name",
			edits: []edit{{"delivery/natspub/fenced.go", "Kept: t.kept, Parts: s.parts}", "Kept: t.kept}"}},
		},
	}
}
