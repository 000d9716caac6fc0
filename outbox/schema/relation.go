package schema

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
)

// DefaultEvents is the relation with the events unless another one is stored.
const DefaultEvents = "events"

// relation returns the quoted name of a relation that lies in the outbox's schema unless it names one.
func (m *Migrator) relation(name string) string {
	if schema, name, found := strings.Cut(name, "."); found {
		return pgx.Identifier{schema, name}.Sanitize()
	}
	return pgx.Identifier{m.cfg.Schema, name}.Sanitize()
}

// storeControl stores the prefix of control subjects, if the configuration has one.
func (m *Migrator) storeControl(ctx context.Context, conn *sql.Conn) error {
	if m.cfg.ControlPrefix == "" {
		return nil
	}
	q, err := newQueries(m.cfg.Schema)
	if err != nil {
		return err
	}
	return onPgx(conn, func(raw *pgx.Conn) error {
		var stored string
		var used bool
		if err := q.SetControlPrefix.Row(ctx, raw, pg.Args{"prefix": m.cfg.ControlPrefix}).Scan(&stored, &used); err != nil {
			return fmt.Errorf("store control prefix: %w", err)
		}
		if used && stored != m.cfg.ControlPrefix {
			return fmt.Errorf("%w: workers have published under %s; leave it out, or take it for a new schema, before the first worker starts", ErrControl, stored)
		}
		return nil
	})
}

// storePlaces stores the relation of the events, stream and subjects, as far as the configuration has them.
func (m *Migrator) storePlaces(ctx context.Context, db pg.DB) error {
	was, err := m.Check(ctx, db)
	if err != nil && !errors.Is(err, ErrStreamMismatch) {
		return err
	}
	events, stream, subject := cmp.Or(m.cfg.Events, was.Events), cmp.Or(m.cfg.Stream, was.Stream), cmp.Or(m.cfg.Subject, was.Subject)
	quoted := m.relation(events)
	if quoted == m.relation(was.Events) && stream == was.Stream && subject == was.Subject {
		return nil
	}
	q, err := newQueries(m.cfg.Schema)
	if err != nil {
		return err
	}
	_, dead, err := pg.Await(ctx, func(ctx context.Context) ([]pg.Sign[uuid.UUID], error) {
		return pg.Collect(ctx, db, q.Living, pg.Args{"steady": pg.Steady}, func(row pgx.CollectableRow) (of pg.Sign[uuid.UUID], err error) {
			err = row.Scan(&of.Key, &of.Until, &of.Ahead)
			return of, err
		})
	})
	if err != nil {
		return fmt.Errorf("look for workers: %w", err)
	}
	silent, until := make([]uuid.UUID, len(dead)), make([]time.Time, len(dead))
	for i, sign := range dead {
		silent[i], until[i] = sign.Key, sign.Until
	}
	var there bool
	var living int
	if err := q.SetPlaces.Row(ctx, db, pg.Args{
		"relation": events, "quoted": quoted, "stream": stream, "subject": subject, "silent": silent, "silent_until": until,
	}).Scan(&there, &living); err != nil {
		return fmt.Errorf("store settings: %w", err)
	}
	switch {
	case !there:
		return fmt.Errorf("%w: %s does not exist; create it and migrate again, until then events are read from %s", ErrEvents, quoted, was.Events)
	case living > 0:
		return fmt.Errorf("%w: %s living and would go on with events from %s, stream %s and subjects %s; stop them first (the row of one that was killed counts until its heartbeat runs out)",
			ErrLiving, english.PluralWord(living, "a worker is", fmt.Sprintf("%d workers are", living)), was.Events, cmp.Or(was.Stream, "of its own setting"), cmp.Or(was.Subject, "of its own setting"))
	}
	m.cfg.Logger.InfoContext(ctx, "settings stored", "schema", m.cfg.Schema, "relation", events, "stream", stream, "subject", subject)
	return nil
}
