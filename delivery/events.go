package delivery

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Events reads the events of those sequences as Rehydrate does, for readers that
// claimed nothing: everything read has been durable for long.
func (s *Store) Events(ctx context.Context, sequences []int64, maxPayload, maxBytes int64) (found map[int64]*Event, cutAt int64, err error) {
	found = make(map[int64]*Event, len(sequences))
	batch := &pgx.Batch{}
	batch.Queue(planning)
	batch.Queue(s.rehydrate, bigints(sequences), maxPayload, maxBytes).Query(collectEvents(found, len(sequences), &cutAt))
	if err := s.db.SendBatch(ctx, batch).Close(); err != nil {
		return nil, 0, fmt.Errorf("read events: %w", err)
	}
	return found, cutAt, nil
}
