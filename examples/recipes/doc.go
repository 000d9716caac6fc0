// Package recipes holds producers and consumers in other languages, one short program each, and their tests. It has no code of
// its own.
//
// # Producers
//
//	node/append.mjs     Node, pg
//	node/drizzle.mjs    Node, Drizzle
//	python/append.py    Python, psycopg2; psycopg 3 but for the import
//	java/Append.java    Java, JDBC
//	ruby/append.rb      Ruby, pg
//	php/append.php      PHP, PDO
//
// Each reads events from its input, one JSON object a line as in events.jsonl, and for each event commits one transaction:
// the row of its own table (state.sql), and the event. It prints what the database answered, and OB001 where the stream has
// another version than expected: then the transaction is rolled back, and what to do is for you to decide. The argument
// rollback has it fail before the first commit, which leaves nothing.
//
// An event without a message id goes through outbox_append: the payload is jsonb, and the answer the sequence. One with a
// message id, the dedupe key, goes through outbox_append_batch: the payload is bytes, and the answer is sequence,
// partition, and whether the event is a duplicate, which has no partition.
//
// The test runs them all and compares what they appended, byte for byte, with what package outbox does. Where a language
// is missing its test is skipped, unless POSTRIDER_REQUIRE_TOOLS is 1; `make test/recipes` installs them.
//
// # Consumers
//
//	node/consume.mjs    Node, pg
//	python/consume.py   Python, psycopg2; psycopg 3 but for the import
//
// Each calls the inbox's SQL functions as docs/inbox-protocol.md says, and is judged by the program inboxtest.
package recipes
