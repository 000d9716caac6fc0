// Package caller is the sender's side of inbox.Call: it numbers calls, and sends each until it is answered.
//
// # Model
//
//	c, err := caller.New(pool, receiver, answered, caller.Config{Name: "shop"})
//	err = c.Queue(ctx, tx, request) // the call is made if the transaction commits
//	err = c.Run(ctx)                // in one process or several
//
// A call waits in inbox_calls, which inbox.Migrate makes. Run takes the oldest one, gives it the sender's next id and commits that; then it sends
// the call until the receiver has answered, and hands the answer over in the transaction that removes the row:
//
//	sender's database                        receiver's database
//	BEGIN … Queue … COMMIT
//	BEGIN  id = last + 1  COMMIT
//	                        ── call id ──▶   BEGIN  inbox.Call: the effect, the id, the result  COMMIT
//	BEGIN  row removed    ◀── result, no ──
//	       answered        COMMIT
//
// Whoever dies on the way leaves a row with its id: the call is sent again, and the receiver repeats what it answered. So each call is carried out
// once, and its answer taken in once. How a call travels is Receiver's: HTTP, NATS requests, anything that answers.
//
// A sender has one receiver. Calls to another one are those of another Caller, under another name: neither waits for the other. Calls that should
// show in the outbox's monitor, wait for their time or be cancelled travel as events instead: examples/remotecall.
//
// # Invariants
//
//   - An id is committed before it is sent, and never belongs to another call of its generation.
//   - One call of a sender is under way at a time: none is sent while an earlier one has no answer.
//   - Calls are sent in the order in which they were queued, as far as transactions did not overlap.
//   - The effects of Answered are there exactly when the call's row is gone.
//
// # Failure handling
//
// An error of the receiver that inbox.Final does not mark, or none in time, is an unknown outcome: the call is sent again after 100 ms, 200 ms, …
// 30 s, for ever, and inbox_calls says why. A Final one is the receiver's no, stored there, and handed over like a result. An error of Answered undoes
// its effects; the call is sent again and answered with the same. Two processes that run a Caller of one name send the same call; one of them
// finds its row and takes the answer in.
//
// A sender's database that was restored from an older copy, or lost commits with a failover, gives ids away again. The receiver would answer
// with other calls' results. So Run compares with the receiver's last call at its start and when another copy answers, later with its own
// last call. It returns ErrForgotten. A person compares both sides: calls that the copy has queued may have been carried out. GoOn sends it
// under the next generation.
package caller
