package model

// Protocol is the workers' protocol. The zero value is Postrider's; each field leaves one precaution out.
type Protocol struct {
	// NoExpectation: batches carry no Nats-Expected-Last-Subject-Sequence.
	NoExpectation bool
	// NoFence: a takeover reads the last record and starts, without writing a fence.
	NoFence bool
	// BlindFence: a takeover reads the last record and writes its fence without an expectation.
	BlindFence bool
	// FenceByEpoch: a worker takes any fence of its epoch for the one that it is about to write, and so writes none when it
	// takes the partition anew.
	FenceByEpoch bool
	// RecordWithoutEvents: a watermark does not name the events of its batch.
	RecordWithoutEvents bool
	// DecideByRead: after an unknown outcome, a read that does not show the batch counts as "not stored". The worker
	// claims anew and sends a new batch, with the sequence that it has read.
	DecideByRead bool
	// FailByRead: the same, but the events count as failed, and are parked.
	FailByRead bool
	// TrustUnknown: an unknown outcome counts as stored.
	TrustUnknown bool
	// OldRecordsCount: after a refusal, a record that is not newer than the expected one may count as the batch.
	OldRecordsCount bool

	// SingleWithoutExpectation, with Config.Singles as those that follow: a message that is stored by itself carries none.
	SingleWithoutExpectation bool
	// SendAgain: a message without an answer is sent again.
	SendAgain bool
	// NoClosing: messages that were stored one by one count as published, and no record names them behind.
	NoClosing bool
	// SkipAnnounced: a takeover does not look for announced messages.
	SkipAnnounced bool
	// MeetFirst: it looks before it writes its fence.
	MeetFirst bool
	// FenceForgets: its fence does not say that something was announced and not closed.
	FenceForgets bool

	// TrustRecords, with Config.Torn: the events that a batch's record names count as stored.
	TrustRecords bool
	// AcceptTorn: so does one's own batch, of which a read shows the record.
	AcceptTorn bool

	// LastRecordOnly: a takeover marks the events of the last watermark, and none of earlier ones.
	LastRecordOnly bool
	// WalkFirst: a takeover walks the records before it writes its fence.
	WalkFirst bool
	// WalkFromMemory: a worker that takes the partition anew walks from the F that it remembers, not from the database's.
	WalkFromMemory bool
	// WalkToAnyEnd: a walk ends where a read shows no further record, and not at the takeover's own fence.
	WalkToAnyEnd bool

	// MarkInTheAir: a late mark holds the batch that is in the air, too.
	MarkInTheAir bool
	// MarkInParts: a mark holds some published and unmarked events, or none, and moves F as if it held all.
	MarkInParts bool
	// TrustMark: a mark without an answer counts as made, so that later ones do not hold its events.
	TrustMark bool
	// MarkWithoutEpoch: a mark compares the owner alone.
	MarkWithoutEpoch bool
	// MarkWhereClaimed: a mark deletes a row where it lay when it was claimed, not where it lies.
	MarkWhereClaimed bool
	// MarkOutlivesSession: a mark that was sent before a crash of the database arrives after it.
	MarkOutlivesSession bool
	// GoOnAfterCrash: after a crash of the database a worker goes on as before it.
	GoOnAfterCrash bool
	// MarkThroughCrash: the same, if it is about to mark, as behind the walk.
	MarkThroughCrash bool
	// GoOnPastFailed: the partition goes on after a batch in which rows failed, were blocked, or came from the parking place,
	// before that is marked.
	GoOnPastFailed bool
	// ClaimPending: a claim does not leave out ready rows that are published and not marked.
	ClaimPending bool
	// ClaimParked: nor parked ones.
	ClaimParked bool

	// EqualEpoch, with Config.Lagging: another owner's record of an equal epoch stops nobody.
	EqualEpoch bool

	// PassUnparked, with Config.Cursor: the cursor moves over failed rows, and parks nothing.
	PassUnparked bool
	// ParkAgain, with Config.Cursor: a mark parks all that it holds as failed, not only what its cursor moves over.
	ParkAgain bool
	// WalkUnparked, with Config.Cursor: the walk parks none of the rows that no record names.
	WalkUnparked bool
	// ReclaimAhead, with Config.Cursor: rows are reclaimed up to the worker's own progress, not up to the committed cursor.
	ReclaimAhead bool

	// CompareFence, with Config.Compare: F alone is compared, which a mark that parks may not move.
	CompareFence bool
	// ForgetSeen, with Config.Compare: marks that a claim has seen do not count as known.
	ForgetSeen bool
}
