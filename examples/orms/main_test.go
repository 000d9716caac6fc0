package orms_test

import (
	"database/sql"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/lib/pq"
	"github.com/uptrace/bun/driver/pgdriver"
	"go.uber.org/goleak"

	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/outbox"
)

// TestMain lets GORM keep the goroutine that looks after its prepared statements: nothing ends it.
func TestMain(m *testing.M) {
	pgtest.Main(m, goleak.IgnoreTopFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1"))
}

func producer(t *testing.T) *outbox.Producer {
	t.Helper()
	p, err := outbox.New(outbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// drivers open a database through each of the drivers for database/sql.
func drivers(t *testing.T, address string) map[string]*sql.DB {
	t.Helper()
	pgx, err := sql.Open("pgx", address)
	if err != nil {
		t.Fatal(err)
	}
	connector, err := pq.NewConnector(address)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*sql.DB{
		"pgx": pgx, "lib/pq": sql.OpenDB(connector), "bun": sql.OpenDB(pgdriver.NewConnector(pgdriver.WithDSN(address))),
	}
	for _, db := range all {
		t.Cleanup(func() { _ = db.Close() })
	}
	return all
}
