// Package headername says which names of message headers are not the producer's. It imports nothing of NATS, so that
// producers can use it.
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

import "strings"

// Status is the name by which clients know an answer of the server.
const Status = "Status"

// Pattern matches reserved names in lower case, as a regular expression of PostgreSQL.
const Pattern = `^(nats-|outbox-|(status|description|kv-operation)$)`

// Reserved returns why a producer's header may not have that name, to follow the name; "" where it may.
func Reserved(name string) string {
	switch lower := strings.ToLower(name); {
	case strings.HasPrefix(lower, "nats-"), strings.HasPrefix(lower, "outbox-"):
		return "must not begin with Nats- or Outbox-"
	case lower == "status", lower == "description", lower == "kv-operation":
		return "is one that NATS clients take for the server's"
	}
	return ""
}
