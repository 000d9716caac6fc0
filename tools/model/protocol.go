package model

// Protocol is what the workers follow. The zero value is Postrider's; each field leaves one precaution out.
type Protocol struct {
	// NoExpectation: batches carry no Nats-Expected-Last-Subject-Sequence.
	NoExpectation bool
	// NoFence: a takeover reads the last record and starts, without writing a fence.
	NoFence bool
	// BlindFence: a takeover reads the last record and writes its fence without an expectation.
	BlindFence bool
	// FenceWithoutCopy: a fence does not list what the record before it lists.
	FenceWithoutCopy bool
	// FenceByEpoch: a worker takes any fence of its epoch for the one that it is about to write, and so writes none when it
	// takes the partition anew.
	FenceByEpoch bool
	// FenceFromMemory: a worker that finds its own fence goes by the record it has read last, not by the fence's list.
	FenceFromMemory bool
	// RecordWithoutEvents: a watermark does not list events.
	RecordWithoutEvents bool
	// RecordOfOneBatch: a watermark lists its own batch only, not the batches of the same claim before it.
	RecordOfOneBatch bool
	// DecideByRead: after an unknown outcome, a read that does not show the batch counts as "not committed". The worker
	// claims anew and sends a new batch, with the sequence that it has read.
	DecideByRead bool
	// SkipByRead: the same, but it puts the events aside for later and goes on with the rows behind them.
	SkipByRead bool
	// TrustUnknown: an unknown outcome counts as committed.
	TrustUnknown bool
	// OldRecordsCount: after a refusal, a record that is not newer than the expected one may count as the batch.
	OldRecordsCount bool
	// MarkWithoutEpoch: a mark compares the owner alone.
	MarkWithoutEpoch bool
	// NoFlush: nothing is flushed between claim and publish.
	NoFlush bool
	// FlushElsewhere: the flush uses another session than the claim, so that it succeeds although the database crashed
	// between the two.
	FlushElsewhere bool
	// ForgetRecord: rows are published as claimed, without a look at the last record's list.
	ForgetRecord bool
}
