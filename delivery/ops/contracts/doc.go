// Package contracts keeps what producers and consumers agree on: of each event type its JSON Schema, whether payloads are checked
// with it, and since when. It describes all of them as an AsyncAPI document.
//
// # Model
//
// A contract is a row of outbox_types. Where it is checked, the append functions refuse payloads that do not fit, in the
// producer's transaction; outbox/schema has the functions that decide. A schema that is not checked describes, and may be any.
//
// Document puts the contracts together with what was seen of events: a topic is a channel with its subject, a type a message,
// and the headers are those of package message.
//
// # Invariants
//
//   - A checked type has a schema of which every word is checked: the table refuses others.
//   - Every change writes one row of outbox_audit in its transaction, with what was there before.
//   - What is stored is not looked at: events that do not fit a later schema are delivered and replayed like others.
//
// # Failures
//
// Wrong input is an InputError that names it; nothing was changed.
package contracts
