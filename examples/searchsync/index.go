package main

import (
	"context"
	"errors"
)

// index is a place to search in. All of it may be called from several goroutines.
type index interface {
	// put stores documents, in place of what it has of them. When it returns nil they are durable and can be found.
	put(ctx context.Context, documents ...document) error
	// remove takes documents out; those it does not have are no error.
	remove(ctx context.Context, ids ...string) error
	// lookup returns what it has of one document; ok is false if nothing.
	lookup(ctx context.Context, id string) (e entry, ok bool, err error)
	// each visits all that it has, in any order.
	each(ctx context.Context, visit func([]entry) error) error
	// search returns at most so many documents, the best first.
	search(ctx context.Context, query string, limit int) ([]document, error)
	// rebuild begins an empty index beside this one.
	rebuild(ctx context.Context) (rebuilding, error)
	// name tells this index from others: what the inbox has seen is kept for it alone.
	name() string
	close() error
}

// rebuilding is an index that is being filled. Of swap and discard one is called.
type rebuilding interface {
	index
	// swap puts it in the place of the one that it was begun beside, in one step, and removes that.
	swap(ctx context.Context) error
	discard(ctx context.Context) error
}

// errRefused: the index will never take this document. Any other error may pass.
var errRefused = errors.New("the index refuses it")
