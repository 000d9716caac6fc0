// Command embedded shows a program that delivers its own events: it takes orders over HTTP, writes each with its event in one transaction,
// and runs a worker of Postrider inside, with the monitor below a path of its own server. It decides who may look and who may act.
//
//	DATABASE_URL=postgres://app@db/app NATS_URL=nats://127.0.0.1:4222 go -C examples run ./embedded
//	curl -d amount=250 http://127.0.0.1:8081/orders
//
// The database must have been migrated (postrider migrate up). Its role needs the rights of a producer, a relay and an operator
// (docs/deployment.md); programs that are careful give each part a role of its own. The program creates the table example_orders for
// itself, and the stream EVENTS where that is missing.
//
// The monitor is at http://127.0.0.1:8081/admin/outbox/: log in with a password that the program printed, as "admin", who may also act, or
// as "guest". What the admin does stands in the audit under that name. The API is at /admin/outbox/api/v1/, metrics at
// /admin/outbox/metrics, health at /admin/outbox/healthz.
//
// Several copies of the program share the partitions. On Ctrl-C it takes no more orders, finishes those under way, and the worker gives its
// partitions back: another copy, or a worker of the command, goes on at once.
package main
