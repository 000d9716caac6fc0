package capture_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/outbox/capture"
)

func TestMain(m *testing.M) { clustertest.Main(m) }

// lab is a migrated database with a store.
type lab struct {
	*pgxpool.Pool
	*capture.Store
	url string
}

func newLab(t *testing.T) lab {
	t.Helper()
	url := pgtest.Migrated(t, 8)
	return labAt(t, url, pgtest.Pool(t, url))
}

func labAt(t *testing.T, url string, pool *pgxpool.Pool) lab {
	t.Helper()
	store, err := capture.New(pool, "public")
	if err != nil {
		t.Fatal(err)
	}
	return lab{Pool: pool, Store: store, url: url}
}

func (l lab) run(t *testing.T, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		if _, err := l.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

func one[T any](t *testing.T, l lab, sql string, args ...any) (value T) {
	t.Helper()
	if err := l.QueryRow(t.Context(), sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

func (l lab) capture(t *testing.T, c capture.Capture) {
	t.Helper()
	if _, err := l.Capture(t.Context(), c, capture.Options{}); err != nil {
		t.Fatalf("capture %s: %v", c.Table, err)
	}
}

func (l lab) adopt(t *testing.T, a capture.Adoption) capture.Done {
	t.Helper()
	done, err := l.Adopt(t.Context(), a, capture.Options{})
	if err != nil {
		t.Fatalf("adopt %s: %v", a.Table, err)
	}
	return done
}

// told are the events in their order.
func (l lab) told(t *testing.T) string {
	t.Helper()
	return one[string](t, l, `SELECT coalesce(string_agg(format('%s %s %s %s', topic, stream_id, event_type, convert_from(payload, 'UTF8')), ' | ' ORDER BY sequence), '') FROM events`)
}

func (l lab) tells(t *testing.T, want ...string) {
	t.Helper()
	if got := l.told(t); got != strings.Join(want, " | ") { // one line, for the mutants
		t.Errorf("events: %s; want: %s", got, strings.Join(want, " | "))
	}
	if n := one[int](t, l, `SELECT count(*) FROM outbox_ready`); n != len(want) {
		t.Errorf("%d events are queued of %d", n, len(want))
	}
}

// as is the lab of another role.
func (l lab) as(t *testing.T, role string) lab {
	t.Helper()
	return labAt(t, l.url, pgtest.PoolAs(t, l.url, role))
}

// role makes one that is gone after the test.
func (l lab) role(t *testing.T) string {
	t.Helper()
	name := "captured_" + strings.ToLower(rand.Text())
	l.run(t, `CREATE ROLE `+name)
	t.Cleanup(func() {
		for _, sql := range []string{`DROP OWNED BY ` + name, `DROP ROLE ` + name} {
			conn, err := pgx.Connect(context.Background(), l.url)
			if err == nil {
				_, err = conn.Exec(context.Background(), sql)
				err = errors.Join(err, conn.Close(context.Background()))
			}
			if err != nil {
				t.Errorf("%s: %v", sql, err)
			}
		}
	})
	return name
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	var answer *pgconn.PgError
	if !errors.As(err, &answer) || answer.Code != code {
		t.Errorf("%v, want SQLSTATE %s", err, code)
	}
}

// wantRefused wants an ErrInput that says all that.
func wantRefused(t *testing.T, err error, says ...string) {
	t.Helper()
	if !errors.Is(err, capture.ErrInput) {
		t.Errorf("%v, want a refusal", err)
		return
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%v: it does not say %q", err, text)
		}
	}
}
