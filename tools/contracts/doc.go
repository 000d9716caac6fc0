// Package contracts holds the check of payloads in SQL to a validator of JSON Schema that others wrote. It has no code of its own.
//
// # Model
//
// The test makes schemas of all keywords that a checked type may have, and for each of them documents, of which many nearly fit. The function
// outbox_mismatch, which the append functions call, and the other validator must decide alike; where they refuse a document,
// it must be for a part of it that both name.
//
// # Invariants
//
// Every schema that is made is one that may be set, each keyword decides some document, and both answers are given often: else the test
// compares nothing, and fails. A seed makes the same schemas and documents everywhere.
//
// # Failure handling
//
// Differences are shown with schema, document, both answers and the seed. One difference is intended: the dot of a pattern matches ends of
// lines in SQL, and the other validator is configured for that.
package contracts
