package main

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/outbox"
)

//go:embed documents.sql
var documentTables string

const (
	streamPrefix   = "document/"
	documentTopic  = "documents"
	documentFilter = "events." + documentTopic + ".>"
)

// errNoDocument: there is no such document, or it is deleted.
var errNoDocument = errors.New("no such document")

// document is what people search for.
type document struct {
	ID      string `json:"id"`
	Version int64  `json:"version"`
	Title   string `json:"title"`
	Body    string `json:"body"`
}

// entry is what an index says it holds of a document.
type entry struct {
	ID      string
	Version int64
	Hash    string
}

// entry names the document's state: version and content.
func (d document) entry() entry {
	sum := sha256.Sum256([]byte(strconv.Itoa(len(d.Title)) + ":" + d.Title + d.Body))
	return entry{ID: d.ID, Version: d.Version, Hash: hex.EncodeToString(sum[:12])}
}

// store is the documents in PostgreSQL.
type store struct {
	pool     *pgxpool.Pool
	producer *outbox.Producer
}

func newStore(ctx context.Context, pool *pgxpool.Pool) (*store, error) {
	producer, err := outbox.New(outbox.Config{})
	if err != nil {
		return nil, err
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { // several programs may start at once
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('examples/searchsync'))`); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, documentTables)
		return err
	})
	return &store{pool: pool, producer: producer}, err
}

// longestID is how long the id of a document may be, in bytes.
const longestID = 300

// save creates or changes documents and tells of it, in one transaction. Versions are set.
func (s *store) save(ctx context.Context, documents ...document) error {
	for _, d := range documents {
		if d.ID == "" || len(d.ID) > longestID {
			return fmt.Errorf("the id of a document must have 1 to %d bytes, got %d", longestID, len(d.ID))
		}
		for _, text := range []string{d.ID, d.Title, d.Body} {
			if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
				return fmt.Errorf("document %q: id, title and body must be UTF-8 without zero bytes", d.ID)
			}
		}
	}
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		events := make([]outbox.Event, len(documents))
		for i, d := range documents {
			events[i] = event(d.ID, "document.saved")
		}
		appended, err := s.producer.AppendTx(ctx, tx, events...)
		if err != nil {
			return err
		}
		var batch pgx.Batch
		for i, d := range documents {
			batch.Queue(`INSERT INTO documents (id, version, title, body) VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO UPDATE
				SET version = excluded.version, title = excluded.title, body = excluded.body, deleted_at = NULL`,
				d.ID, appended[i].StreamVersion, d.Title, d.Body)
		}
		return tx.SendBatch(ctx, &batch).Close()
	})
}

// remove deletes a document and tells of it.
func (s *store) remove(ctx context.Context, id string) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		appended, err := s.producer.AppendTx(ctx, tx, event(id, "document.deleted"))
		if err != nil {
			return err
		}
		done, err := tx.Exec(ctx, `UPDATE documents SET version = $2, title = '', body = '', deleted_at = clock_timestamp()
			WHERE id = $1 AND deleted_at IS NULL`, id, appended[0].StreamVersion)
		if err == nil && done.RowsAffected() == 0 {
			return fmt.Errorf("%w: %q", errNoDocument, id)
		}
		return err
	})
}

// event is a pointer: whoever gets it reads the document as it is then.
func event(id, kind string) outbox.Event {
	return outbox.Event{StreamID: streamPrefix + id, Topic: documentTopic, Type: kind, Payload: []byte(`{}`)}
}

// lockTx makes tx the only one that brings this document to an index, until it ends, and reads the document as it is
// now: ok tells whether it exists.
func lockTx(ctx context.Context, tx pgx.Tx, id string) (d document, ok bool, err error) {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('examples/searchsync/' || $1, 0))`, id); err != nil {
		return d, false, err
	}
	err = tx.QueryRow(ctx, `SELECT id, version, title, body FROM documents WHERE id = $1 AND deleted_at IS NULL`, id).
		Scan(&d.ID, &d.Version, &d.Title, &d.Body)
	if errors.Is(err, pgx.ErrNoRows) {
		return d, false, nil
	}
	return d, err == nil, err
}

// each visits all documents in the order of their ids, some at a time.
func (s *store) each(ctx context.Context, size int, visit func([]document) error) error {
	for after := ""; ; {
		rows, err := s.pool.Query(ctx, `SELECT id, version, title, body FROM documents
			WHERE id > $1 AND deleted_at IS NULL ORDER BY id LIMIT $2`, after, size)
		if err != nil {
			return err
		}
		documents, err := pgx.CollectRows(rows, pgx.RowToStructByPos[document])
		if err != nil || len(documents) == 0 {
			return err
		}
		if err := visit(documents); err != nil {
			return err
		}
		after = documents[len(documents)-1].ID
	}
}

// documentOf is the document that a stream belongs to.
func documentOf(stream string) (id string, ok bool) { return strings.CutPrefix(stream, streamPrefix) }
