package pg_test

import (
	"context"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/faultproxy"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// A pool that was led to a standby in the midst of a failover comes to the primary as soon as its address leads there.
func TestAPoolDoesNotStayWithAStandby(t *testing.T) {
	t.Parallel()
	primary, standby := pgtest.Server(t, localpg.Config{}), pgtest.Server(t, localpg.Config{})
	for _, server := range []*localpg.Server{primary, standby} {
		if _, err := pgtest.Pool(t, server.URL()).Exec(t.Context(), `CREATE ROLE worker LOGIN PASSWORD 'secret'`); err != nil {
			t.Fatal(err)
		}
	}
	signal := filepath.Join(standby.DataDir(), "standby.signal")
	if _, err := pgtest.Pool(t, standby.URL()).Exec(t.Context(), `COPY (SELECT) TO '`+signal+`'`); err != nil {
		t.Fatal(err)
	}
	if err := standby.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(primary.URL())
	if err != nil {
		t.Fatal(err)
	}
	address := faultproxy.StartPostgres(t, standby.URL())
	config, err := pgxpool.ParseConfig(address.URL())
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.User, config.ConnConfig.Password = "worker", "secret"
	pool, err := pg.Connections{Name: "test", Most: 2, Keep: true}.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var waits bool
	ask := func(ctx context.Context) (primary bool, err error) {
		err = pool.QueryRow(ctx, `SELECT pg_is_in_recovery()`).Scan(&waits)
		return !waits, err
	}
	if is, err := ask(t.Context()); is || err != nil {
		t.Fatalf("the standby is none: %v", err)
	}
	address.Retarget(target.Host)
	clustertest.Until(t, "the pool comes to the primary", ask, nil)
}
