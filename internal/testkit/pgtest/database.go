package pgtest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/testkit/backend"
)

// databaseTimeout bounds the creation and the removal of one database.
const databaseTimeout = time.Minute

// URL returns the address of a new, empty database that is dropped when the test ends, whatever is still
// connected to it. The role is a superuser, unless POSTRIDER_TEST_DATABASE_URL names another.
func URL(t testing.TB) string {
	t.Helper()
	return newDatabase(t, useShared(t), "")
}

// Encoded is URL of a database with that encoding.
func Encoded(t testing.TB, encoding string) string {
	t.Helper()
	return newDatabase(t, useShared(t), emptyTemplate+" ENCODING '"+encoding+"' LOCALE 'C'")
}

// Pool connects to the address and closes the pool when the test ends.
func Pool(t testing.TB, address string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), address)
	if err != nil {
		t.Fatalf("pgtest: open a pool: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// PoolAs is Pool for sessions that have taken a role, given as SQL writes it.
func PoolAs(t testing.TB, address, role string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `SET ROLE `+role)
		return err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatalf("pgtest: open a pool as %s: %v", role, err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// Server starts a server for this test alone, which it may crash, kill and restart. It is stopped when the test ends.
// Such a server always runs from installed binaries, whatever the backend.
func Server(t testing.TB, config localpg.Config) *localpg.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	server, err := localpg.Start(ctx, config)
	if errors.Is(err, localpg.ErrNoBinaries) && backend.MustSelect(t) == backend.Containers {
		t.Skip(err)
	}
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	if err := execute(ctx, server.URL(), closed); err != nil {
		t.Errorf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return server
}

// useShared returns the shared server, or ends the test with the reason why there is none.
func useShared(t testing.TB) source {
	t.Helper()
	server, err := shared.use()
	backend.Check(t, err)
	return server
}

// newDatabase creates a database, as a copy of from unless that is empty, and drops it when the test ends.
func newDatabase(t testing.TB, server source, from string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), databaseTimeout)
	defer cancel()
	name := newName("test")
	address, err := createDatabase(ctx, server.url, name, from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), databaseTimeout)
		defer cancel()
		if err := dropDatabase(ctx, server.url, name); err != nil {
			t.Error(err)
		}
	})
	return address
}

// newName makes a database name that is unique also among the test binaries that use one server.
func newName(kind string) string {
	return "postrider_" + kind + "_" + strings.ToLower(rand.Text())
}

// createDatabase returns the address of the new database. Its files are copied where the server lets one choose: without a
// force to disk that takes a third of the time that a copy through the log takes.
func createDatabase(ctx context.Context, server, name, from string) (string, error) {
	from = cmp.Or(from, emptyTemplate)
	statement := fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", pgx.Identifier{name}.Sanitize(), from)
	err := execute(ctx, server, statement+" STRATEGY file_copy")
	if failed := (*pgconn.PgError)(nil); errors.As(err, &failed) && failed.Code == unknownOption {
		err = execute(ctx, server, statement)
	}
	if err != nil {
		return "", fmt.Errorf("pgtest: create a database: %w", err)
	}
	address, err := withDatabase(server, name)
	if err == nil && strings.HasPrefix(from, emptyTemplate) {
		err = execute(ctx, address, closed)
	}
	return address, err
}

// closed revokes the rights on a new database that PostgreSQL 14 alone gives to everybody.
const closed = `DO $$BEGIN IF NOT pg_is_in_recovery() THEN REVOKE CREATE ON SCHEMA public FROM PUBLIC; END IF; END$$`

const emptyTemplate = "template0"

// unknownOption is PostgreSQL 14's answer to STRATEGY.
const unknownOption = "42601"

func dropDatabase(ctx context.Context, server, name string) error {
	statement := "DROP DATABASE IF EXISTS " + pgx.Identifier{name}.Sanitize() + " WITH (FORCE)"
	if err := execute(ctx, server, statement); err != nil {
		return fmt.Errorf("pgtest: drop database %s: %w", name, err)
	}
	return nil
}

func execute(ctx context.Context, address, statement string) error {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}

func withDatabase(address, name string) (string, error) {
	parsed, err := url.Parse(address)
	if err != nil || (parsed.Scheme != "postgres" && parsed.Scheme != "postgresql") {
		return "", fmt.Errorf("pgtest: %s must hold a postgres:// address", Variable) // The address may hold a password.
	}
	parsed.Path = "/" + name
	return parsed.String(), nil
}
