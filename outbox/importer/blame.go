package importer

import (
	"errors"
	"fmt"

	"github.com/postrider/postrider/outbox"
)

// blame finds the line that an append failed for: the event that breaks a
// rule, does not fit its schema or does not continue its stream, else the transaction's first one.
func (r *run) blame(m *missing, err error) error {
	at := 0
	var invalid *outbox.InvalidEventError
	var conflict *outbox.VersionConflictError
	var unfit *outbox.PayloadSchemaError
	switch {
	case errors.As(err, &invalid):
		at = invalid.Index
		err = fmt.Errorf("%w: %w", ErrInput, err)
	case errors.As(err, &unfit):
		at = unfit.Index
		err = fmt.Errorf("%w: %w", ErrInput, err)
	case errors.As(err, &conflict):
		at = m.find(conflict.Stream, conflict.Expected+1)
		err = fmt.Errorf("%w: a file must begin a stream at version 1 or continue it: %w", ErrVersion, err)
	case errors.Is(err, outbox.ErrVersionConflict):
		err = fmt.Errorf("%w: another writer was faster: %w", ErrVersion, err)
	case errors.Is(err, outbox.ErrPayloadTooLarge), errors.Is(err, outbox.ErrInvalidEvent):
		err = fmt.Errorf("%w: %w", ErrInput, err)
	}
	return r.at(m.lines[at], fmt.Errorf("append transaction %d: %w", m.number, err))
}

// find returns the index of an event, 0 if there is none.
func (m *missing) find(stream string, version int64) int {
	for i := range m.events {
		if m.events[i].StreamID == stream && m.versions[i] == version {
			return i
		}
	}
	return 0
}
