package pairs_test

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/url"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/internal/testkit/slow"
)

func TestMain(m *testing.M) { clustertest.Main(m) }

// chosenBy is the variable whose value chooses the pairs of the short form.
const chosenBy = "POSTRIDER_PART"

// template is the database that each pair gets a copy of.
const template = "pairs"

// TestPairs has every operation meet every other one, and itself, in both orders.
func TestPairs(t *testing.T) { //nolint:paralleltest // one server serves all, and is killed
	if os.Getenv(slow.Variable) == "1" && os.Getenv(chosenBy) != "" {
		t.Skip("a part of the slow tests has none of the pairs: its short form chooses them")
	}
	fixed := equipped(t, localpg.Config{})
	var movable *localpg.Server // of those alone that move the clock
	var clock *pgtest.Clock
	chosen := short(operations(), os.Getenv(chosenBy))
	n := 0
	for _, a := range operations() { //nolint:paralleltest // one server serves all, and is killed
		for _, b := range operations() {
			n++
			inShort := chosen[[2]string{a.name, b.name}]
			if !inShort && os.Getenv(slow.Variable) != "1" {
				continue // a skipped test for each would hide those that matter
			}
			server := fixed
			if a.name == steps || b.name == steps {
				if movable == nil && pgtest.HasClock() {
					clock = pgtest.NewClock(t)
					movable = equipped(t, localpg.Config{Environment: clock.Environment()})
				}
				server = cmp.Or(movable, fixed)
			}
			t.Run(a.name+"×"+b.name, func(t *testing.T) {
				if !inShort {
					slow.Test(t)
				}
				name := fmt.Sprintf("pair_%d", n)
				administer(t, server, `CREATE DATABASE `+name+` TEMPLATE `+template)
				t.Cleanup(func() { drop(t, server, name) })
				s := begin(t, server, database(t, server, name), a.permits|b.permits)
				s.clock, s.awaited = clock, inShort
				meet(t, s, a, b)
			})
		}
	}
}

// equipped is a server with the template.
func equipped(t *testing.T, config localpg.Config) *localpg.Server {
	t.Helper()
	server := pgtest.Server(t, config)
	administer(t, server, `CREATE DATABASE `+template)
	migrate := clustertest.Launch(t, "migrate", []string{"DATABASE_URL=" + database(t, server, template)},
		"migrate", "up", fmt.Sprintf("--partitions=%d", partitions))
	if migrate.Exit(t) != 0 {
		t.Fatalf("migrate up: %s", migrate.Stderr())
	}
	return server
}

// meet has the second operation begin and end while the first one lasts.
func meet(t *testing.T, s *stage, a, b operation) {
	t.Helper()
	first, second := a.act(s, 1), b.act(s, 2)
	step(t, first.begin)
	step(t, second.begin)
	step(t, second.end)
	step(t, first.end)
	step(t, second.finish)
	step(t, first.finish)
	s.settleAll(t)
	step(t, second.check)
	step(t, first.check)
	s.judge(t)
	for _, refused := range s.refused {
		t.Logf("%s was refused", refused)
	}
	if t.Failed() {
		t.Logf("%s=%q chooses this pair", chosenBy, os.Getenv(chosenBy))
	}
}

// short chooses pairs in which every operation occurs: another value of the variable, other pairs.
func short(list []operation, value string) map[[2]string]bool {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(value))
	random := rand.New(rand.NewPCG(hash.Sum64(), 0)) // which pairs are tried is no secret
	order := random.Perm(len(list))
	chosen := map[[2]string]bool{}
	for i := 0; i < len(order); i += 2 {
		chosen[[2]string{list[order[i]].name, list[order[(i+1)%len(order)]].name}] = true
	}
	return chosen
}

// drop removes a database, with the prepared transactions that a pair which failed left in it.
func drop(t *testing.T, server *localpg.Server, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), clustertest.Patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, database(t, server, name))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	rows, _ := conn.Query(ctx, `SELECT gid FROM pg_prepared_xacts WHERE database = current_database()`)
	left, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, gid := range left {
		if _, err := conn.Exec(ctx, `ROLLBACK PREPARED '`+gid+`'`); err != nil {
			t.Error(err)
		}
	}
	administer(t, server, `DROP DATABASE `+name+` WITH (FORCE)`)
}

// administer runs a statement in the server's own database.
func administer(t *testing.T, server *localpg.Server, statement string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), clustertest.Patience) // also when the test has ended
	defer cancel()
	conn, err := pgx.Connect(ctx, server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// database is the address of one on the server.
func database(t *testing.T, server *localpg.Server, name string) string {
	t.Helper()
	address, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	address.Path = "/" + name
	return address.String()
}
