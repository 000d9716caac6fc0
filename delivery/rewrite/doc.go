// Package rewrite changes events on their way out by rules instead of code: it
// redacts payloads and renames types. It makes a shape.Transform of them.
//
// # Model
//
// A redaction is a JSON pointer (RFC 6901), for all types or for one, whose value is
// removed. A "*" in it stands for every element of an array. A rename
// gives an event type another name. Both look at the type as it is stored;
// redactions come first.
//
// # Invariants
//
//   - Values without a pointer stay byte for byte: numbers, order, spaces, escapes.
//   - A pointer takes every member of that name, however it is escaped, when there
//     are several. Names are compared exactly, also in case.
//   - The same payload gives the same result; nothing but the payload and the rules
//     decides.
//   - Removing takes a member out of its object; an element of an array becomes null,
//     so that the others keep their places.
//
// # Failures
//
// A payload that is to be redacted and is no JSON is not let through: the message fails permanently (shape.ErrPermanent). A pointer that
// leads nowhere is no failure.
package rewrite
