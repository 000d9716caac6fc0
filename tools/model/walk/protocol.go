package walk

// Protocol chooses the precautions that workers take. The zero value is the protocol of doc.go; each field but the last two leaves one precaution out.
type Protocol struct {
	// NoExpectation: messages carry no Nats-Expected-Last-Subject-Sequence.
	NoExpectation bool
	// NoRecord: a takeover reads the last record and starts, without writing one.
	NoRecord bool
	// BlindRecord: a takeover reads the last record and writes its own without an expectation.
	BlindRecord bool
	// RecordByEpoch: a worker takes any record of its epoch for the one that it is about to write.
	RecordByEpoch bool
	// EqualEpoch, with Config.Lagging: another owner's record of an equal epoch stops nobody.
	EqualEpoch bool

	// NoWalk: a takeover marks nothing, and claims the database's rows.
	NoWalk bool
	// WalkFirst: a takeover walks before it writes its record.
	WalkFirst bool
	// WalkToAnyEnd: a walk ends where a read shows no further message, and not at the own record.
	WalkToAnyEnd bool
	// PositionByNumber: the message at the row's position is not compared with the one that was there.
	PositionByNumber bool

	// SendAgain: a message without an answer is sent again under the same K.
	SendAgain bool
	// ClaimAgain: a message without an answer counts as not stored, and is claimed anew.
	ClaimAgain bool
	// TrustUnknown: a message without an answer counts as stored.
	TrustUnknown bool

	// SameTake: a takeover writes its epoch into the row, which is not new where it takes the partition anew.
	SameTake bool
	// MarkComparesNothing: a mark does not look at the row's fence.
	MarkComparesNothing bool
	// TakeAlone: marks and claims compare the row's takeover, and not its number of marks.
	TakeAlone bool
	// ClaimComparesNothing: a claim does not look at the row's fence.
	ClaimComparesNothing bool
	// MarkGrows: a mark without an answer is made again with events that became pending since.
	MarkGrows bool
	// MarkInTheAir: a late mark holds events in the air, too.
	MarkInTheAir bool
	// ClaimPending: a claim does not leave out rows that are published and not marked.
	ClaimPending bool
	// GoOnPastFailed: the partition goes on after rows failed, were blocked, or came from the parking place, before that is marked.
	GoOnPastFailed bool

	// HealBeside: the partition goes on while its lost events are queued again.
	HealBeside bool
	// EndEarly: the job ends before all events are queued.
	EndEarly bool
	// EndAtTheEnd: the job sets the position to the stream's end.
	EndAtTheEnd bool

	// TrustMark is a liberty: a mark without an answer counts as made. The next claim or mark finds out.
	TrustMark bool
	// LifeInSubject is one precaution more: the record's subject names the stream's life, so that a position of an earlier one is none.
	LifeInSubject bool
}
