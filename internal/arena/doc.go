// Package arena copies many small texts and bodies into few pieces of memory.
//
// Model: a kept value is appended to a piece; when it is full a new one begins. A
// value larger than a quarter of a piece gets memory of its own.
//
// Invariants: a returned value never changes. A piece is freed with the last of its
// values: clone one that outlives the others.
//
// Failure handling: none is needed. The types are for one goroutine.
//
// Decision: ADR 19.
package arena
