package importer

import (
	"context"
	"time"

	"github.com/postrider/postrider/outbox"
)

// missing is the part of a file's transaction that the database lacks.
type missing struct {
	number   int64
	events   []outbox.Event
	versions []int64 // of the events
	lines    []int   // of the events
	bytes    int     // of the payloads
}

func (r *run) write(ctx context.Context, chunk []transaction) error {
	if len(chunk) == 0 {
		return nil
	}
	present, err := r.present(ctx, chunk)
	if err != nil {
		return err
	}
	var todo []missing
	for _, t := range chunk {
		m := missing{number: t.number}
		for i := range t.rows {
			row := &t.rows[i]
			if present[place{row.stream, row.version}] {
				r.skipped++
				continue
			}
			m.events = append(m.events, row.event(&r.config))
			m.versions = append(m.versions, row.version)
			m.lines = append(m.lines, row.line)
			m.bytes += len(row.payload)
		}
		if len(m.events) > 0 {
			todo = append(todo, m)
		}
	}
	for len(todo) > 0 {
		n := r.window(todo)
		if err := r.pace.wait(ctx, len(todo[0].events)); err != nil {
			return err
		}
		if err := r.pipeline(ctx, todo[:n], n == len(todo)); err != nil {
			return err
		}
		todo = todo[n:]
	}
	return nil
}

// committed counts a transaction and passes the news on.
func (r *run) committed(m *missing, appended []outbox.Appended) {
	r.transactions++
	r.events += len(appended)
	if r.config.OnCommitted != nil {
		r.config.OnCommitted(Transaction{m.number, m.events, appended, time.Now()})
	}
}
