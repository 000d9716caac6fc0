// Command producer shows how a Go program appends events: the change of its own
// table, the event and the pointer row are one transaction, and after the commit
// the workers' doorbell is rung.
//
//	DATABASE_URL=postgres://app@db/app NATS_URL=nats://127.0.0.1:4222 go -C examples run ./producer order-17
//
// The database must have been migrated (postrider migrate up). NATS_URL may be
// missing: the workers then find the event with their next poll. The program
// creates the table example_payments for itself.
package main
