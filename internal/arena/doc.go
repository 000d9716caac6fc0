// Package arena copies many small texts and bodies into few pieces of memory.
//
// Model: what is kept is appended to a piece; when it is full a new one begins. What
// is larger than a quarter of a piece gets memory of its own.
//
// Invariants: what was returned never changes. Nothing is freed before the last one
// that looks at a piece: what outlives the others must be cloned.
//
// Failure handling: none is needed. The types are for one goroutine.
//
// Decision: ADR 19.
package arena
