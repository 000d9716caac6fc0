package capture_test

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/outbox/capture"
	"github.com/postrider/postrider/outbox/schema"
)

// Letters of the database's encoding name streams, whatever their bytes are; JSON has characters that it has no place for.
func TestTablesOfEveryEncoding(t *testing.T) {
	t.Parallel()
	for encoding, letters := range map[string]string{"WIN1252": "“€”", "KOI8R": "─Ё", "LATIN1": "é"} {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			url := pgtest.Encoded(t, encoding)
			m, err := schema.New(schema.Config{DatabaseURL: url, Schema: "public", Partitions: 8, OthersMayCreate: true})
			if err == nil {
				err = m.Up(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			l := labAt(t, url, pgtest.Pool(t, url+"&client_encoding=UTF8"))
			const odd = `INSERT INTO q (body) VALUES ('{"k":"\u65e5"}')`
			l.run(t, `CREATE TABLE c (k text PRIMARY KEY, n json)`, `INSERT INTO c VALUES ('before`+letters+`')`, `CREATE TABLE q (id bigserial PRIMARY KEY, body json, headers json)`, odd)
			if _, err := l.Capture(t.Context(), capture.Capture{Table: "c"}, capture.Options{Backfill: true}); err != nil {
				t.Fatal(err)
			}
			adoption := capture.Adoption{Table: "q", Map: map[string]string{"id": "event_id", "body.k": "stream_id", "body": "payload", "headers": "headers"}, Type: "t"}
			_, err = l.Adopt(t.Context(), adoption, capture.Options{})
			if err == nil || !strings.Contains(err.Error(), "public.q has a character") || !strings.Contains(err.Error(), "--no-import") {
				t.Errorf("what waits is told with %v", err)
			}
			adoption.NoImport = true
			l.adopt(t, adoption)
			l.in(t, "letters", `INSERT INTO c VALUES ('`+letters+`', '"\u65e5\u0080"')`, `INSERT INTO q (body, headers) VALUES ('{"k":"`+letters+`"}', '{"a":"`+letters+`"}')`, odd)
			l.tells(t, `c public.c:before`+letters+` c.read {"new":{"k":"before`+letters+`","n":null}}`, `c public.c:`+letters+` c.inserted {"new":{"k":"`+letters+`","n":"\u65e5\u0080"}}`,
				`default `+letters+` t {"k":"`+letters+`"}`, `default public.q t {"k":"\u65e5"}`)
			if got := one[string](t, l, `SELECT max(metadata #>> '{headers,a}') FROM events`); got != letters {
				t.Errorf("the header is %s", got)
			}
		})
	}
}
