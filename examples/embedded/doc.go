// Command embedded shows the monitor as a part of another program: its handler
// is mounted below a path of a server that exists anyway, and that program decides
// who may look.
//
//	DATABASE_URL=postgres://monitor@db/app go run ./examples/embedded
//
// Then open http://127.0.0.1:8081/admin/outbox/ and log in as "admin" with the
// password that the program printed. It needs no NATS and runs no worker. Metrics
// are at /admin/outbox/metrics, health at /admin/outbox/healthz.
package main
