package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/heartbeat"
)

// workerShapes returns what the messages of the living workers look like, each text once, sorted. Workers that do not say are left out.
func workerShapes(ctx context.Context, pool *pgxpool.Pool, schema string) ([]string, error) {
	store, err := heartbeat.NewStore(pool, schema)
	if err != nil {
		return nil, err
	}
	snapshot, err := store.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	shapes := map[string]bool{}
	for _, w := range snapshot.Workers {
		if w.Live() && w.Shape != "" {
			shapes[w.Shape] = true
		}
	}
	return slices.Sorted(maps.Keys(shapes)), nil
}

// checkShape refuses to publish past the workers what would look other than what they publish: without their redaction, for one.
func (f paceFlags) checkShape(s *session, pool *pgxpool.Pool, schema string) error {
	if f.OtherShape {
		return nil
	}
	shapes, err := workerShapes(s.ctx, pool, schema)
	if err != nil {
		return err
	}
	own := f.shapeFlags.settings()
	if len(shapes) == 0 {
		fmt.Fprintf(s.stderr, "no worker is there that says what its messages look like; these will be %s\n", own)
		return nil
	}
	for _, theirs := range shapes {
		if theirs != own {
			return fmt.Errorf("%w: workers publish with the settings %s, this replay would with %s: give it theirs, or confirm with --other-shape that other messages are meant",
				errRefused, theirs, own)
		}
	}
	return nil
}

// shapeFinding tells whether all workers make the same messages.
func shapeFinding(ctx context.Context, pool *pgxpool.Pool, schema string) finding {
	shapes, err := workerShapes(ctx, pool, schema)
	switch {
	case err != nil:
		return finding{"message settings", levelError, redact(err.Error())}
	case len(shapes) > 1:
		return finding{"message settings", levelWarning, "workers publish with different settings: " + strings.Join(shapes, "; ") +
			"; messages that are published again may differ"}
	case len(shapes) == 0:
		return finding{"message settings", levelOK, "no worker is there"}
	}
	return finding{"message settings", levelOK, "all workers: " + shapes[0]}
}
