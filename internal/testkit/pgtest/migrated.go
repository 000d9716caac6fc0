package pgtest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/outbox/schema"
)

// Migrated returns the address of a new database that holds the project's schema in "public" for this number of
// partitions. The schema is migrated once per partition count and then copied, which takes some 30 ms.
func Migrated(t testing.TB, partitions int) string {
	t.Helper()
	server := useShared(t)
	source := shared.templateFor(partitions)
	source.once.Do(func() { source.name, source.err = newTemplate(server, partitions) })
	if source.err != nil {
		t.Fatal(source.err)
	}
	return newDatabase(t, server, source.name)
}

// newTemplate migrates a database and closes it to connections, which would stand in the way of copying it.
// Its lifetime is that of the test binary and not of the test that happens to ask first.
func newTemplate(server source, partitions int) (_ string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), databaseTimeout)
	defer cancel()
	// One at a time: a migration may create roles, which all databases of a server share.
	shared.migrating.Lock()
	defer shared.migrating.Unlock()

	name := newName("template")
	address, err := createDatabase(ctx, server.url, name, "")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, dropDatabase(ctx, server.url, name))
		}
	}()
	migrator, err := schema.New(schema.Config{DatabaseURL: address, Schema: "public", Partitions: partitions, OthersMayCreate: true})
	if err != nil {
		return "", fmt.Errorf("pgtest: migrate a template: %w", err)
	}
	if err := migrator.Up(ctx); err != nil {
		return "", fmt.Errorf("pgtest: migrate a template: %w", err)
	}
	closing := fmt.Sprintf("ALTER DATABASE %s ALLOW_CONNECTIONS false", pgx.Identifier{name}.Sanitize())
	if err := execute(ctx, server.url, closing); err != nil {
		return "", fmt.Errorf("pgtest: close the template: %w", err)
	}
	return name, nil
}
