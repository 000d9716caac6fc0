// Command inboxtest judges a consumer in any language by the effects that it leaves in a database.
//
//	inboxtest -database URL python3 consume.py
//
// # Model
//
// The program starts the command, brings it messages as JetStream does through a durable consumer with one message in flight, and
// plays eleven scenes: repeat, late, gap, kill-before-commit, kill-before-ack, resize, conflict, failing, poison, two-at-once,
// replay. It makes the inbox's tables and its own, inboxtest_*, in the database, and ends with 1 if a scene fails.
//
// The consumer finds DATABASE_URL and INBOX_CONSUMER, the name to give to the inbox, in its environment. It reads one JSON
// object a line, and answers each in the same way before it reads the next:
//
//	{"id": 1, "subject": "…", "stream_sequence": 12, "headers": {"Outbox-Event-Id": "…", …}, "payload": "base64"}   a message
//	{"id": 2, "retry": true}                                                   run parked messages until none is due
//	{"id": 1, "ack": true}     the message need not come again; false: it must
//
// The effect of a message is SELECT inboxtest_effect(stream, version, event_id), in the transaction in which it is recorded. Where
// that gives true the consumer must fail as if its own code had: the effect is undone, and the message parked. A consumer that
// ends without an answer is started again, and gets the message again.
//
// Consumers that pass: recipes/node/consume.mjs, recipes/python/consume.py, and two of this program: -consumer package is package
// inbox, -consumer functions the SQL functions in Go. Its other ones have one fault each, and must fail.
//
// # Invariants
//
// Every scene has a consumer and streams of its own; scenes follow each other. What is judged is the table inboxtest_effects.
//
// # Failures
//
// The first thing that a consumer gets wrong ends its scene. A database that cannot be used ends the program.
package main
