package prefix

// Protocol is what the workers follow. The zero value is the one to build; each field leaves one precaution out.
type Protocol struct {
	// NoExpectation: batches carry no Nats-Expected-Last-Subject-Sequence.
	NoExpectation bool
	// NoFence: a takeover reads the last record and starts, without writing a fence.
	NoFence bool
	// BlindFence: a takeover reads the last record and writes its fence without an expectation.
	BlindFence bool
	// FenceWithoutCopy: a fence does not say what the record before it says.
	FenceWithoutCopy bool
	// FenceByEpoch: a worker takes any fence of its own and its epoch for the one that it is about to write, be it of another takeover.
	FenceByEpoch bool
	// DecideByRead: after an unknown outcome, a read that does not show the batch counts as "not stored".
	DecideByRead bool
	// MarkInTheAir: a batch is marked before it was answered.
	MarkInTheAir bool
	// TrustUnknown: an unknown outcome counts as stored, and what comes behind is sent.
	TrustUnknown bool
	// MarkWithoutOwner: a mark compares neither owner nor epoch.
	MarkWithoutOwner bool
	// ParkAgain: a mark parks all of its holes, not only those above the cursor that it finds.
	ParkAgain bool
	// PassHoles: a mark moves the cursor and parks nothing.
	PassHoles bool
	// OwnHolesOnly: a record names the holes of its own batch, not those of the batches before it.
	OwnHolesOnly bool
	// NoHoles: a record names no holes.
	NoHoles bool
	// TrustParked: a parked row is published as it was claimed, without a look at what the last record says.
	TrustParked bool
	// ParkedAhead: parked rows above the worker's own cursor are claimed, too: somebody else has passed them.
	ParkedAhead bool
	// TrustReady: after a takeover rows are read behind the database's cursor, not behind what the record says.
	TrustReady bool
	// ReclaimAhead: rows are reclaimed up to what the worker knows to be stored, not up to the committed cursor.
	ReclaimAhead bool
}
