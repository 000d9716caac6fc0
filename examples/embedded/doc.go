// Command embedded shows the monitor as a part of another program: its handler
// is mounted below a path of a server that exists anyway, and that program decides
// who may look and who may act.
//
//	DATABASE_URL=postgres://operator@db/app go -C examples run ./embedded
//
// Then open http://127.0.0.1:8081/admin/outbox/ and log in with a password that
// the program printed: as "admin", who may also act, or as "guest". What the admin
// does stands in the audit under that name. The database role needs an operator's
// rights (docs/deployment.md); with those of a monitor alone leave Operator out.
// The program needs no NATS and runs no worker. The API is at
// /admin/outbox/api/v1/, metrics at /admin/outbox/metrics, health at
// /admin/outbox/healthz.
package main
