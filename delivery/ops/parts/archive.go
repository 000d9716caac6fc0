package parts

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/outbox/importer"
)

// perTransaction bounds the events of a file that an import puts into one transaction; the original transactions are not known any more.
const perTransaction = 100

// Archive writes a part's events to events-N.jsonl.gz in that folder, as an import reads them, reads the file back, and returns its place
// and size.
func (s *Store) Archive(ctx context.Context, part Part, folder string) (_ Archived, err error) {
	name := filepath.Join(folder, fmt.Sprintf("events-%d.jsonl.gz", part.Number))
	unfinished := name + ".unfinished"
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("archive part %d of the events: %w", part.Number, err), gone(os.Remove(unfinished)))
		}
	}()
	events, err := s.write(ctx, part, unfinished)
	if err != nil {
		return Archived{}, err
	}
	back, err := readable(unfinished)
	if err != nil {
		return Archived{}, err
	}
	if back != events {
		return Archived{}, fmt.Errorf("%d events were written and %d could be read back", events, back)
	}
	if err := os.Rename(unfinished, name); err != nil {
		return Archived{}, err
	}
	return Archived{name, events}, durable(folder)
}

// gone forgives a missing file.
func gone(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// durable has the folder's entries on disk.
func durable(folder string) error {
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (s *Store) write(ctx context.Context, part Part, name string) (events int, err error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	buffer := bufio.NewWriterSize(file, 1<<20)
	zip := gzip.NewWriter(buffer)
	rows, err := s.sql.Events.Rows(ctx, s.pool, pg.Args{"part": part.Number})
	if err != nil {
		return 0, err
	}
	lines := json.NewEncoder(zip)
	lines.SetEscapeHTML(false)
	var line importer.Line
	var payload []byte
	_, err = pgx.ForEachRow(rows, []any{
		&line.Sequence, &line.EventID, &line.Stream, &line.Version, &line.Type, &line.Topic, &line.Tenant, &line.Key,
		&line.Metadata, &line.AuditOnly, &line.OccurredAt, &line.RecordedAt, &payload,
	}, func() error {
		tx := int64(events / perTransaction)
		line.Tx = &tx
		line.Payload, line.Bytes = nil, nil
		if asItIs(payload) {
			line.Payload = payload
		} else {
			line.Bytes = payload
		}
		events++
		return lines.Encode(line)
	})
	if err != nil {
		return 0, err
	}
	return events, errors.Join(zip.Close(), buffer.Flush(), file.Sync())
}

// asItIs reports whether a payload can stand in a line of JSON and be read from it byte for byte.
func asItIs(payload []byte) bool {
	var compact bytes.Buffer
	return json.Compact(&compact, payload) == nil && bytes.Equal(compact.Bytes(), payload)
}

// readable counts the events of a file, which must all be as an import wants them.
func readable(name string) (events int, err error) {
	file, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return importer.Count(file, name)
}
