// Package contracts keeps the agreement of producers and consumers: of each event type its JSON Schema, whether payloads are checked with
// it, and since when. It describes all of them as an AsyncAPI document.
//
// # Model
//
// A contract is a row of outbox_types. Where it is checked, the append functions refuse payloads that do not fit, in the
// producer's transaction; outbox/schema has the functions that decide. A schema that is not checked describes, and may be any.
//
// Document puts the contracts together with the events seen: a topic is a channel with its subject, a type a message, and the headers are
// those of package message.
//
// # Invariants
//
//   - A checked type has a schema whose every word is checked: the table refuses others.
//   - Every change writes one row of outbox_audit in its transaction, with the former contract.
//   - Stored events are not checked: a misfit to a later schema is delivered and replayed like others.
//
// # Failures
//
// Wrong input is an InputError that names it; nothing was changed.
package contracts
