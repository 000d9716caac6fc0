// Command remotecall calls procedures of other systems over HTTP as part of a database transaction: the call is made
// exactly when the transaction commits, is executed once, and its result comes back in a transaction, too.
//
//	DATABASE_URL=… NATS_URL=… go -C examples run ./remotecall demo
//
// # Model
//
//	sender's database                         NATS        caller               target's database
//	BEGIN                                                                      BEGIN
//	  UPDATE bank_accounts …                                                     inbox: last id of the sender
//	  call: outbox event ──── relay ────▶ events.calls.> ──▶ inbox: "arrived"    run the procedure
//	        remote_calls row                                  POST /call ──────▶  inbox: id, result
//	COMMIT                                                                     COMMIT, then answer
//	                                 ◀── BEGIN, delete the row, callback, COMMIT ◀──┘
//
// The row says what is to be called, its event when it may be. A call's id is the sequence of its event, so ids ascend
// over all calls of a sender; all calls of one target are one stream of the outbox, so theirs also ascend in the order of
// commits, whoever writes them. Calls travel as events rather than straight from the table, since the outbox brings what
// a table lacks: nobody scans it, a backlog shows in the monitor, AvailableAt makes a call wait, a pause stops calls, and
// the event counts once although it may come twice (package inbox). The event carries nothing: cancelling a call by
// deleting its row leaves nothing of it behind.
//
// The caller has one lane per target. A lane sends the lowest id that has no answer and nothing else until it has one, so
// that no call is overtaken, and no target waits for another. A receiver keeps the last id of each sender and its result
// (inbox, mode of a sender): the same id again gets the stored result, a lower one is refused, a higher one is executed.
// Its sender is the one that the token belongs to; the request names none.
//
// # Answers
//
//	200 of the receiver             done      callback, row removed
//	422, 402 of the receiver        failed    the procedure said no: final, callback, row removed
//	400 of the receiver, outdated   outdated  the target has gone past this id: final, logged as an error, callback, row removed
//	anything else, no answer        —         again after 100 ms, 200 ms, … 30 s, for ever; this target alone waits
//
// The receiver's answers name the call (header Call-Id). The same status from a proxy in between says nothing about a call
// that may have been executed already.
//
// Callback and removal are one transaction. When the callback fails (an error, a panic, longer than 5 s) both roll back,
// the answer is stored with the row, and the callback is tried again with the same backoff: the target is not asked again.
// Meanwhile the next calls of that target wait, so that callbacks run in order, or go ahead with --pass-callbacks. After 8
// failures the callback is dead: the row stays for a person (status, requeue) and the target's calls go on. An error of the
// database that a callback passes over, and a transaction that it ends, are failures, too. One that takes no notice of the
// end of its context holds up its target until it returns. All callbacks share 16 connections.
//
// # Failure handling
//
// A caller that dies before the answer is stored sends the call again and gets the stored result, because nothing later
// was sent. A receiver that dies before its commit executed nothing; after it, it has the result. Two callers at once (a
// second one stands by while the first one's session lives) send the same head: the receiver executes it once, one of them
// finds the row and runs the callback; an answer that comes when another one is stored changes nothing. The call is marked as sent before the first attempt: cancel refuses from then on,
// so that what it takes back was never sent. A row that somebody deletes by hand while its call is under way ends it
// without a callback; the target may have executed it.
//
// The sender's database restored from an older copy gives ids away again. The receiver compares the call's UUID and answers
// 400 instead of another call's result; such calls end as outdated, and a person must compare both sides.
package main
