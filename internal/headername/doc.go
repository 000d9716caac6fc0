// Package headername lists the names of message headers that are not the producer's. It imports nothing of NATS, so that producers can use it.
//
// # Model
//
// nats.go takes every message without payload that has a header Status for an answer of the server; nats.py takes every
// message that has one. Description is the text beside it. Buckets of keys read KV-Operation. Names are compared without
// regard to case: nats.go and nats.py do not, other clients do.
//
// # Invariants
//
// SQL refuses the same names: outbox_metadata_problem, schema/migrations/00002_functions.sql.
//
// # Failures
//
// None: a name is reserved or not.
package headername
