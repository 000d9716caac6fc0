package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/outbox/schema"
)

// storedFlags are what `migrate up` stores in the database for everybody. Who names one is refused where another is stored.
type storedFlags struct {
	Partitions     int    `help:"Number of partitions that the database must have; 0: whatever it has." default:"0"`
	EventsRelation string `help:"Table or view that the database must have stored as the one with the events; without it whatever is stored." placeholder:"NAME"`
}

func (f storedFlags) validate() error {
	if f.Partitions < 0 || f.Partitions > 32767 {
		return fmt.Errorf("%w: --partitions must lie between 1 and 32767, or be 0, got %d", errRefused, f.Partitions)
	}
	return checkRelationName(f.EventsRelation)
}

// checkRelationName refuses what --events-relation must not be. Nothing is whatever is stored.
func checkRelationName(name string) error {
	if name == "" {
		return nil
	}
	if err := pg.CheckRelation(name); err != nil {
		return fmt.Errorf("%w: --events-relation: %w", errRefused, err)
	}
	return nil
}

// check makes sure that the tables are there and fit, and have stored what the flags say.
func (f storedFlags) check(ctx context.Context, pool *pgxpool.Pool, name string) (schema.Info, error) {
	m, err := schema.New(schema.Config{Schema: name, Partitions: f.Partitions, Events: f.EventsRelation})
	if err != nil {
		return schema.Info{}, fmt.Errorf("%w: %w", errRefused, err)
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	info, err := m.Check(ctx, pool)
	return info, named(err)
}

// checkSchema makes sure that the tables are there and fit.
func checkSchema(ctx context.Context, pool *pgxpool.Pool, name string) (schema.Info, error) {
	return storedFlags{}.check(ctx, pool, name)
}

// eventsOf is where an outbox's events are: the database says so, to everybody the same.
func eventsOf(info schema.Info) (delivery.Relation, error) {
	return delivery.ParseRelation(info.Events)
}

// largestPayload is what is read of an event: as much as could be appended. Whoever lowers that later means what is appended then.
func largestPayload(info schema.Info) int64 {
	return max(delivery.DefaultMaxPayload, info.MaxPayloadBytes)
}

// named adds to an error of the schema which setting it is about.
func named(err error) error {
	switch {
	case errors.Is(err, schema.ErrPartitionMismatch):
		return fmt.Errorf("%w: --partitions: %w", errRefused, err)
	case errors.Is(err, schema.ErrEventsMismatch), errors.Is(err, schema.ErrEvents):
		return fmt.Errorf("%w: --events-relation: %w", errRefused, err)
	case err == nil, errors.Is(err, schema.ErrNotMigrated), errors.Is(err, schema.ErrOutdated),
		errors.Is(err, schema.ErrNewer), errors.Is(err, schema.ErrUnpublished):
		return err
	default:
		return fmt.Errorf("database (--database-url): %w", err)
	}
}
