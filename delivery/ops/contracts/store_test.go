package contracts_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/delivery/ops/contracts"
	"github.com/postrider/postrider/delivery/ops/maintenance"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func newStore(t *testing.T) (*contracts.Store, *pgxpool.Pool) {
	t.Helper()
	pool := pgtest.Pool(t, pgtest.Migrated(t, 4))
	store, err := contracts.New(t.Context(), pool, "public", pgstore.Relation{})
	if err != nil {
		t.Fatal(err)
	}
	return store, pool
}

func run(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func of(name, schema string, checked bool) contracts.Contract {
	return contracts.Contract{Type: name, Schema: json.RawMessage(schema), Checked: checked}
}

var me = contracts.Options{Actor: "me", Reason: "why"}

// A contract is set, changed and dropped; each time the audit says who, why and what was before, and appending follows.
func TestAContractsLife(t *testing.T) {
	t.Parallel()
	store, pool := newStore(t)
	set := func(c contracts.Contract, o contracts.Options) *contracts.Contract {
		t.Helper()
		before, err := store.Set(t.Context(), c, o)
		if err != nil {
			t.Fatal(err)
		}
		return before
	}
	appends := func(fits bool) {
		t.Helper()
		_, err := pool.Exec(t.Context(), `SELECT outbox_append('s', 'paid', '{"n": "x"}')`)
		var refused *pgconn.PgError
		if is := errors.As(err, &refused) && refused.Code == "OB002"; is == fits {
			t.Errorf("appended: %v, want %t", err, fits)
		}
	}
	first := of("paid", `{"properties": {"n": {"type": "integer"}}}`, true)
	first.Description = "an order was paid"
	if before := set(first, contracts.Options{Actor: "me", DryRun: true}); before != nil {
		t.Errorf("before a dry run: %+v", before)
	}
	appends(true)
	if before := set(first, me); before != nil {
		t.Errorf("before: %+v", before)
	}
	appends(false)
	before := set(of("paid", `{"format": "any"}`, false), me)
	if before == nil || !before.Checked || before.Description != first.Description || !strings.Contains(string(before.Schema), "integer") {
		t.Errorf("before: %+v", before)
	}
	appends(true)
	set(of("b", `{}`, true), contracts.Options{Actor: "me"})
	list, err := store.List(t.Context())
	if err != nil || len(list) != 2 || list[0].Type != "b" || list[1].Checked || list[1].Description != first.Description || !list[1].UpdatedAt.After(list[1].CreatedAt) {
		t.Errorf("listed: %+v, %v", list, err)
	}
	if _, err := store.Drop(t.Context(), "paid", contracts.Options{Actor: "me", DryRun: true}); err != nil {
		t.Error(err)
	}
	if c, err := store.Find(t.Context(), "paid"); err != nil || c.Checked || string(c.Schema) != `{"format": "any"}` {
		t.Errorf("found: %+v, %v", c, err)
	}
	if _, err := store.Drop(t.Context(), "paid", me); err != nil {
		t.Error(err)
	}
	var audit string
	if err := pool.QueryRow(t.Context(), `SELECT string_agg(concat_ws(' ', actor, action, target ->> 'type', reason, details #>> '{before,json_schema}',
		details #>> '{after,checked}'), '; ' ORDER BY id) FROM outbox_audit`).Scan(&audit); err != nil {
		t.Fatal(err)
	}
	if want := `me type.set paid why true; me type.set paid why {"properties": {"n": {"type": "integer"}}} false; me type.set b true; me type.drop paid why {"format": "any"}`; audit != want {
		t.Errorf("audit:\n got %s\nwant %s", audit, want)
	}
}

// What is refused names the input, and changes nothing.
func TestWrongContractsAreRefused(t *testing.T) {
	t.Parallel()
	store, pool := newStore(t)
	for _, c := range []struct {
		contracts.Contract
		contracts.Options
		field, says string
	}{
		{of("", `{}`, true), me, "type", "1 to 1024 bytes"},
		{of(strings.Repeat("x", 1025), `{}`, true), me, "type", "1 to 1024 bytes"},
		{of("a\x00", `{}`, true), me, "type", "text"},
		{of("a", `{`, true), me, "json-schema", "one JSON object"},
		{of("a", `{} {}`, false), me, "json-schema", "one JSON object"},
		{of("a", `null`, false), me, "json-schema", "one JSON object"},
		{of("a", `{"title": "\u0000"}`, false), me, "json-schema", "does not fit jsonb"},
		{of("a", strings.Repeat(`{"items":`, 1500)+`{}`+strings.Repeat(`}`, 1500), true), me, "json-schema", "stack depth limit exceeded"},
		{of("a", `{"items": {"format": "uuid"}}`, true), me, "json-schema", "/items/format is not checked here"},
		{of("a", `{"title": "`+strings.Repeat("x", 256<<10)+`"}`, true), me, "json-schema", "at most 262144 bytes"},
		{of("a", `{}`, true), contracts.Options{Actor: " "}, "actor", "audit"},
		{of("a", `{}`, true), contracts.Options{Actor: "a", Reason: strings.Repeat("x", 2001)}, "reason", "2000"},
	} {
		for _, dry := range []bool{true, false} {
			c.Options.DryRun = dry
			_, err := store.Set(t.Context(), c.Contract, c.Options)
			var input *maintenance.InputError
			if !errors.As(err, &input) || input.Field != c.field || !strings.Contains(input.Problem, c.says) {
				t.Errorf("%.60s %.60s: %v, want %s: %s", c.Type, c.Schema, err, c.field, c.says)
			}
		}
	}
	for what, err := range map[string]error{
		"find": second(store.Find(t.Context(), "a")), "drop": second(store.Drop(t.Context(), "a", me)), "newest": second(store.Seen(t.Context(), 0)),
	} {
		var input *maintenance.InputError
		if !errors.As(err, &input) {
			t.Errorf("%s: %v", what, err)
		}
	}
	var n int
	if err := pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM outbox_types) + (SELECT count(*) FROM outbox_audit)`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows were written: %v", n, err)
	}
}

func second[T any](_ T, err error) error { return err }

// Of the newest events topics and types are told, and nothing that is never published.
func TestWhatWasSeen(t *testing.T) {
	t.Parallel()
	store, pool := newStore(t)
	for _, sql := range []string{
		`SELECT outbox_append('s', 'old', '{}')`, `SELECT outbox_append('s', 'paid', '{}', topic => 'shop') FROM generate_series(1, 2)`,
		`SELECT outbox_append('s', 'kept', '{}', publish => false)`, `SELECT outbox_append('s', 'paid', '{}')`,
	} {
		run(t, pool, sql)
	}
	seen, err := store.Seen(t.Context(), 4)
	if err != nil || len(seen) != 2 || seen[0] != (contracts.Seen{Topic: "default", Type: "paid", Events: 1, Newest: 5}) ||
		seen[1] != (contracts.Seen{Topic: "shop", Type: "paid", Events: 2, Newest: 3}) {
		t.Errorf("seen: %+v, %v", seen, err)
	}
	run(t, pool, `CREATE VIEW few AS SELECT sequence, event_type FROM events WHERE event_type = 'old'`)
	if store, err = contracts.New(t.Context(), pool, "public", pgstore.Relation{Name: "few"}); err != nil {
		t.Fatal(err)
	}
	if seen, err = store.Seen(t.Context(), 4); err != nil || len(seen) != 1 || seen[0].Topic != "default" || seen[0].Type != "old" {
		t.Errorf("seen in a view: %+v, %v", seen, err)
	}
}
