package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/projection"
)

// files is the projector: one stream per path. A lenient one passes over events that it cannot make sense of.
type files struct{ lenient bool }

// Tables implements projection.Projector.
func (files) Tables() []projection.Table {
	return []projection.Table{{Name: "files", Stream: "path"}, {Name: "file_changes", Stream: "path"}}
}

// Define implements projection.Projector.
func (files) Define(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `
		CREATE TABLE IF NOT EXISTS files (
			path        text PRIMARY KEY,
			present     boolean NOT NULL,
			blob        text,
			mode        text NOT NULL,
			changes     int NOT NULL,
			forks       int NOT NULL, -- changes that began at another content than the one before: merged branches
			last_commit text NOT NULL,
			changed_at  timestamptz NOT NULL);
		CREATE TABLE IF NOT EXISTS file_changes (
			path      text,
			version   bigint,
			kind      text NOT NULL,
			commit_id text NOT NULL,
			PRIMARY KEY (path, version));
		CREATE OR REPLACE VIEW folders AS
			SELECT split_part(path, '/', 1) AS folder, count(*) AS files, sum(changes) AS changes FROM files WHERE present GROUP BY 1`)
	return err
}

// change is the payload of an event.
type change struct {
	Commit string  `json:"commit"`
	Before *string `json:"blob_before"`
	After  *string `json:"blob_after"`
	Mode   string  `json:"mode_after"`
}

// Apply implements projection.Projector. A payload that cannot be read never can, so the stream's head is dead at once.
func (f files) Apply(ctx context.Context, tx pgx.Tx, e projection.Event) error {
	kind, ours := strings.CutPrefix(e.Type, "file.")
	if !ours {
		return nil
	}
	var c change
	err := json.Unmarshal(e.Payload, &c)
	if f.lenient && (err != nil || c.Commit == "") {
		return nil
	}
	if err != nil {
		return projection.Permanent(fmt.Errorf("payload of a %s: %w", e.Type, err))
	}
	if c.Commit == "" {
		return fmt.Errorf("a %s without a commit", e.Type)
	}
	batch := &pgx.Batch{} // both statements in one round trip
	batch.Queue(`INSERT INTO files AS f VALUES ($1, $2, $3, $4, 1, 0, $5, $6)
		ON CONFLICT (path) DO UPDATE SET present = excluded.present, blob = excluded.blob, mode = excluded.mode, changes = f.changes + 1,
			forks = f.forks + (f.blob IS DISTINCT FROM $7)::int, last_commit = excluded.last_commit, changed_at = excluded.changed_at`,
		e.Stream, c.After != nil, c.After, c.Mode, c.Commit, e.OccurredAt, c.Before)
	batch.Queue(`INSERT INTO file_changes VALUES ($1, $2, $3, $4)`, e.Stream, e.Version, kind, c.Commit)
	return tx.SendBatch(ctx, batch).Close()
}
