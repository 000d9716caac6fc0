package schema_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/outbox/schema"
)

// What is a letter in the database's encoding names events; what UTF-8 has no place for is refused by the field that has it: a worker that
// reads texts in UTF-8 would fail for all of its partition.
func TestTextsOfEveryEncoding(t *testing.T) {
	t.Parallel()
	for encoding, one := range map[string]struct{ letters, none string }{
		"UTF8":    {"“€” Žöë 日本", `\302\205`}, // a control of C1
		"LATIN1":  {"é ÿ", `\205`},
		"WIN1252": {"“€” Žöë", `\201`},
		"WIN1251": {"Ђ € Ё", `\230`},
		"WIN1253": {"€ Ω", `\322`},
		"KOI8R":   {"─ Ё", `\001`},
		"EUC_JP":  {"“x” Ё 日本", `\374\376`},
	} {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			address := pgtest.Encoded(t, encoding)
			m, err := schema.New(schema.Config{DatabaseURL: address, Schema: "public", Partitions: 4, OthersMayCreate: true})
			if err == nil {
				err = m.Up(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			conn, err := pgx.Connect(t.Context(), address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close(context.Background()) })
			run(t, conn, `SET client_encoding = 'UTF8'`)
			const appends = `SELECT outbox_append($1::text, $1::text, jsonb_build_object('a', $1::text), topic => $1::text, partition_key => $1::text, dedupe_key => $1::text, tenant_id => $1::text,
				metadata => jsonb_build_object('correlation_id', $1::text, 'headers', jsonb_build_object('a', $1::text), 'other', $1::text))`
			if _, err := conn.Exec(t.Context(), appends, one.letters); err != nil {
				t.Errorf("%s is refused: %v", one.letters, err)
			}
			refused := func(field, value string) {
				t.Helper()
				before := map[string]string{
					"topic": "'s', 't', '{}', topic => ", "event_type": "'s', ", "stream_id": "", "tenant_id": "'s', 't', '{}', tenant_id => ",
					"partition_key": "'s', 't', '{}', partition_key => ", "dedupe_key": "'s', 't', '{}', dedupe_key => ", "correlation_id": "'s', 't', '{}', metadata => jsonb_build_object('correlation_id', ",
					"header": "'s', 't', '{}', metadata => jsonb_build_object('headers', jsonb_build_object('a', ", "metadata": "'s', 't', '{}', metadata => jsonb_build_object('other', ",
				}[field]
				behind := map[string]string{"event_type": ", '{}'", "stream_id": ", 't', '{}'", "correlation_id": ")", "header": "))", "metadata": ")"}[field]
				_, err := conn.Exec(t.Context(), `SELECT outbox_append(`+before+value+behind+`)`)
				answer, ok := errors.AsType[*pgconn.PgError](err)
				if !ok || answer.Code != "22023" || !strings.Contains(answer.Message, field) && field != "header" {
					t.Errorf("%s is %s: %v, want a refusal that names it", field, value, err)
				}
			}
			for _, field := range []string{"topic", "event_type", "stream_id", "tenant_id", "partition_key", "dedupe_key", "correlation_id", "header", "metadata"} {
				if field == "metadata" && (encoding == "UTF8" || encoding == "LATIN1" || encoding == "KOI8R") {
					continue // controls may stand in what is no header
				}
				refused(field, `convert_from('a`+one.none+`'::bytea, '`+encoding+`')`)
			}
			var stored string
			if err := conn.QueryRow(t.Context(), `SELECT stream_id || topic || event_type || tenant_id || metadata::text FROM events ORDER BY sequence LIMIT 1`).Scan(&stored); err != nil || strings.Count(stored, one.letters) != 7 {
				t.Errorf("stored: %s, %v", stored, err)
			}
		})
	}
}

// In a database of UTF8 a rule for texts is one expression of the statement that asks: all appends pay for it.
func TestRulesForTextsAreInLine(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), pgtest.Migrated(t, 8))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	rows, err := conn.Query(t.Context(), `EXPLAIN (VERBOSE, COSTS off) SELECT outbox_bad_text(topic), outbox_bad_value(topic) FROM events`)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if plan := strings.Join(lines, "\n"); err != nil || strings.Contains(plan, "outbox_bad") || strings.Contains(plan, "CASE") || strings.Count(plan, "~") != 2 {
		t.Errorf("the plan is %s, %v", plan, err)
	}
}
