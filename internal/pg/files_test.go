package pg_test

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// A password that was changed together with its file ends no pool: each connection reads the file anew.
func TestAPasswordsFileIsReadForEachConnection(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, localpg.Config{})
	admin, file := pgtest.Pool(t, server.URL()), filepath.Join(t.TempDir(), "pgpass")
	secret := func(verb, password string) {
		t.Helper()
		if _, err := admin.Exec(t.Context(), verb+` ROLE worker LOGIN PASSWORD '`+password+`'`); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("*:*:*:worker:"+password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	secret("CREATE", "first")
	address, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	address.User, address.RawQuery = url.User("worker"), "passfile="+url.QueryEscape(file)
	config, err := pg.ParseConfig(address.String())
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pg.Connections{Name: "test", Most: 1}.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	secret("ALTER", "second")
	pool.Reset() // as connections end in their time
	if err := pool.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}
