package parts_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/delivery/ops/parts"
	"github.com/postrider/postrider/outbox"
)

// Who saw the events before a part began could not see what was written since: neither a version nor an id is given twice.
func TestAnAppendThatIsOlderThanAPartIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	known := event("s")
	known.ID = uuid.New()
	b.must(t, event("first"))
	b.split(t)
	old, err := b.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer old.Rollback(context.WithoutCancel(t.Context()))
	if _, err := old.Exec(t.Context(), `SELECT count(*) FROM events`); err != nil {
		t.Fatal(err)
	}
	b.must(t, known)
	b.begin(t)
	_, err = b.producer.AppendTx(t.Context(), old, known)
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "40001" {
		t.Errorf("it is answered with %v", err)
	}
}

// A call that is repeated is known by its keys in another part, too, and when the part of its events is gone.
func TestARepeatedCallIsKnownOverParts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	call := []outbox.Event{event("a"), event("b")}
	for i := range call {
		call[i].ID, call[i].DedupeKey = uuid.New(), fmt.Sprint(i)
	}
	b.must(t, call...)
	b.split(t)
	again, err := b.append(t, call...)
	if err != nil || !again[0].Duplicate || !again[1].Duplicate || again[1].EventID != call[1].ID {
		t.Errorf("in parts: %+v, %v", again, err)
	}
	b.begin(t)
	b.must(t, event("c"))
	if err := b.store.Drop(t.Context(), b.parts(t)[0], parts.Archived{}, who); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 2; n++ {
		again, err := b.append(t, call[:n]...)
		if err != nil || !again[0].Duplicate || again[0].EventID != uuid.Nil || again[0].StreamVersion != 0 || again[0].Sequence != 1 {
			t.Errorf("%d without their part: %+v, %v", n, again, err)
		}
	}
}

// The owner's name may need quotes, and long values stay compressed as they were.
func TestPartsAreMadeAsTheTableWas(t *testing.T) {
	t.Parallel()
	b := setup(t)
	owner := `"Parts ` + uuid.NewString() + `"`
	for _, sql := range []string{`CREATE ROLE ` + owner, `ALTER TABLE events OWNER TO ` + owner} {
		if _, err := b.pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	b.split(t)
	b.must(t, event("s"))
	b.begin(t)
	if n := get[int](t, b, `SELECT count(*) FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
		WHERE c.relname ~ '^events(_[0-9]+)?$' AND a.attname = 'payload' AND a.attcompression = 'l' AND c.relowner = '`+owner+`'::regrole`); n != 4 {
		t.Errorf("%d tables are as the first one was, want 4", n)
	}
	if _, err := b.pool.Exec(t.Context(), `DROP TABLE events CASCADE; DROP ROLE `+owner); err != nil {
		t.Error(err)
	}
}
