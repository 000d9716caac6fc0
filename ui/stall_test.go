package ui_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/partition"
	"github.com/postrider/postrider/ui"
)

// ordered is an outbox whose partitions have an owner that delivers nothing, and
// the monitor that looks at it.
type ordered struct {
	address string
	pool    *pgxpool.Pool
	store   *pgstore.Store
	server  *httptest.Server
}

func newOrdered(t *testing.T) *ordered {
	t.Helper()
	o := &ordered{address: pgtest.Migrated(t, 2)}
	o.pool = pgtest.Pool(t, o.address)
	stores := newStores(t, o.pool)
	o.store = stores.deliveries
	if held, err := stores.leases.Acquire(t.Context(), uuid.UUID{15: 1}, time.Hour, []partition.ID{0, 1}); err != nil || len(held) != 2 {
		t.Fatalf("%d leases: %v", len(held), err)
	}
	return o
}

// look starts the monitor on the address.
func (o *ordered) look(t *testing.T, address, events string) {
	t.Helper()
	pool := pgtest.Pool(t, address)
	stores := newStores(t, pool)
	var err error
	if stores.deliveries, err = pgstore.New(t.Context(), pool, "public", pgstore.Relation{Name: events}); err != nil {
		t.Fatal(err)
	}
	source, err := ui.NewSource(ui.SourceConfig{
		Workers: stores.workers, Leases: stores.leases, Deliveries: stores.deliveries, Strategy: partition.Modulo,
	})
	if err != nil {
		t.Fatal(err)
	}
	cache, err := ui.NewCache(source, ui.CacheConfig{
		Interval: 100 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), // of reads that fail
	})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(ui.NewCollector(cache))
	o.server = serve(t, ui.Options{Source: cache, Gatherer: registry})
}

func (o *ordered) exec(t *testing.T, sql string) {
	t.Helper()
	if _, err := o.pool.Exec(context.Background(), sql); err != nil { // cleanups need it, too
		t.Errorf("%s: %v", sql, err)
	}
}

// produce begins a transaction of an application, in which it appends, and then
// appends and commits in another session.
func (o *ordered) produce(t *testing.T, application string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(o.address)
	if err != nil {
		t.Fatal(err)
	}
	config.RuntimeParams["application_name"] = application
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	for _, sql := range []string{`BEGIN`, `SELECT outbox_append('a', 'created', '{}')`} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	o.exec(t, `SELECT outbox_append('b', 'created', '{}')`)
	return conn
}

type watermark struct {
	State   string
	Safe    int64 `json:"safe_sequence"`
	Highest int64 `json:"highest_sequence"`
	Lag     int64
	Waiting float64 `json:"waiting_seconds"`
	Holders []holder
}

type holder struct {
	PID         *uint32
	GID         *string
	Application *string `json:"application_name"`
	State       *string
	Age         *float64 `json:"age_seconds"`
}

func (o *ordered) watermark(t *testing.T) watermark {
	t.Helper()
	return decode[struct{ Watermark watermark }](t, call(t, o.server, http.MethodGet, "/api/v1/summary")).Watermark
}

func (o *ordered) page(t *testing.T) answer {
	t.Helper()
	return call(t, o.server, http.MethodGet, "/?partitions=table")
}

// until moves the watermark, as a worker would, until the condition is met.
func (o *ordered) until(t *testing.T, what string, met func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		if _, err := o.store.Advance(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if met() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s: %+v", what, o.watermark(t))
		}
		advance(t, 20*time.Millisecond)
	}
}

func (o *ordered) untilNoticed(t *testing.T) answer {
	t.Helper()
	var page answer
	o.until(t, "the page has the notice", func() bool {
		page = o.page(t)
		return strings.Contains(page.text, `id="stall"`)
	})
	return page
}

func (o *ordered) untilCalm(t *testing.T) {
	t.Helper()
	o.until(t, "the watermark is current", func() bool { return o.watermark(t).State == "current" })
	if strings.Contains(o.page(t).text, `id="stall"`) {
		t.Error("the notice outlives the stall")
	}
	wantContains(t, call(t, o.server, http.MethodGet, "/metrics"),
		"\noutbox_watermark_lag_seconds 0\n", "\noutbox_watermark_lag_events 0\n", "\noutbox_watermark_holders 0\n")
}

func TestIdleTransactionIsNamed(t *testing.T) {
	t.Parallel()
	o := newOrdered(t)
	o.look(t, o.address, "events")
	tx := o.produce(t, "billing <1>")
	pid := tx.PgConn().PID()

	page := o.untilNoticed(t)
	wantContains(t, page, "Order waits for a transaction:", fmt.Sprintf("pid %d (billing &lt;1&gt;, idle in transaction, ", pid),
		fmt.Sprintf("<code>SELECT pg_terminate_backend(%d)</code>", pid), fmt.Sprintf("order waits for pid %d (", pid), "held for ")
	w := o.watermark(t)
	if w.State != "held" || w.Safe != 0 || w.Highest != 2 || w.Lag != 2 || w.Waiting <= 1 || len(w.Holders) != 1 {
		t.Fatalf("the watermark is %+v", w)
	}
	h := w.Holders[0]
	if h.PID == nil || *h.PID != pid || h.GID != nil || h.Application == nil || *h.Application != "billing <1>" ||
		h.State == nil || *h.State != "idle in transaction" || h.Age == nil || *h.Age <= 1 {
		t.Errorf("the holder is %+v", h)
	}
	metrics := call(t, o.server, http.MethodGet, "/metrics")
	wantContains(t, metrics, "\noutbox_watermark_lag_events 2\n", "\noutbox_watermark_holders 1\n", "\noutbox_paused_partitions 0\n")
	if strings.Contains(metrics.text, "\noutbox_watermark_lag_seconds 0") {
		t.Error("the metric says that nothing is waited for")
	}
	wantContains(t, call(t, o.server, http.MethodGet, "/api/v1/partitions"), fmt.Sprintf(`"why":["order waits for pid %d (`, pid), `"why":[]`)

	if _, err := tx.Exec(t.Context(), `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	o.untilCalm(t)
}

func TestPreparedTransactionIsNamed(t *testing.T) {
	t.Parallel()
	o := newOrdered(t)
	o.look(t, o.address, "events")
	tx := o.produce(t, "billing")
	gid := "it's " + rand.Text()
	quoted := "'" + strings.ReplaceAll(gid, "'", "''") + "'"
	if _, err := tx.Exec(t.Context(), `PREPARE TRANSACTION `+quoted); err != nil {
		t.Fatal(err)
	}
	prepared := true
	t.Cleanup(func() {
		if prepared {
			o.exec(t, `ROLLBACK PREPARED `+quoted)
		}
	})

	page := o.untilNoticed(t)
	html := strings.NewReplacer(`'`, "&#39;", `"`, "&#34;").Replace
	wantContains(t, page, html(fmt.Sprintf("prepared transaction %q (", gid)), "<code>"+html("ROLLBACK PREPARED "+quoted)+"</code>")
	h := o.watermark(t).Holders
	if len(h) != 1 || h[0].PID != nil || h[0].GID == nil || *h[0].GID != gid || h[0].Age == nil {
		t.Errorf("the holders are %+v", h)
	}

	o.exec(t, `COMMIT PREPARED `+quoted)
	prepared = false
	o.untilCalm(t)
}

// Transactions are prepared and end one over the other; a session that began among them and stays is named, and
// one that began behind it is, too, once it has been open as long.
func TestSessionAmongPreparedTransactionsIsNamed(t *testing.T) {
	t.Parallel()
	o := newOrdered(t)
	o.look(t, o.address, "events")
	names := []string{"two-phase-" + rand.Text(), "two-phase-" + rand.Text(), "two-phase-" + rand.Text()}
	prepare := func(n int) {
		o.exec(t, fmt.Sprintf(`BEGIN; SELECT outbox_append('p-%d', 'created', '{}')`, n)+`; PREPARE TRANSACTION '`+names[n]+`'`)
		t.Cleanup(func() { _, _ = o.pool.Exec(context.Background(), `ROLLBACK PREPARED '`+names[n]+`'`) }) // usually it has ended
	}
	prepare(0)
	o.exec(t, `SELECT outbox_append('c', 'created', '{}')`)
	o.until(t, "the first is named", func() bool { return len(o.watermark(t).Holders) == 1 })
	prepare(1)
	tx := o.produce(t, "billing")
	prepare(2)
	o.exec(t, `ROLLBACK PREPARED '`+names[0]+`'`)
	o.exec(t, `ROLLBACK PREPARED '`+names[1]+`'`)
	named := func(pid uint32) func() bool {
		return func() bool {
			return slices.ContainsFunc(o.watermark(t).Holders, func(h holder) bool { return h.PID != nil && *h.PID == pid })
		}
	}
	o.until(t, "the session is named", named(tx.PgConn().PID()))

	config, err := pgx.ParseConfig(o.address)
	if err != nil {
		t.Fatal(err)
	}
	later, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = later.Close(context.Background()) })
	for _, sql := range []string{`BEGIN`, `SELECT outbox_append('d', 'created', '{}')`} {
		if _, err := later.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	o.until(t, "the one behind it is named", named(later.PgConn().PID()))
	if h := o.watermark(t).Holders; h[0].PID == nil || *h[0].PID != tx.PgConn().PID() {
		t.Errorf("the oldest does not come first: %+v", h)
	}
}

// unprivileged returns the address of a role that may read all tables, less what
// is revoked from {role}.
func (o *ordered) unprivileged(t *testing.T, revoke string) string {
	t.Helper()
	role := "monitor_" + strings.ToLower(rand.Text())
	o.exec(t, strings.ReplaceAll(`CREATE ROLE {role} LOGIN PASSWORD 'monitor';
		GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role};`+revoke, "{role}", role))
	t.Cleanup(func() {
		o.exec(t, `DROP OWNED BY `+role)
		o.exec(t, `DROP ROLE `+role)
	})
	address, err := url.Parse(o.address)
	if err != nil {
		t.Fatal(err)
	}
	address.User = url.UserPassword(role, "monitor")
	return address.String()
}

func TestStallIsNamedWithoutPrivileges(t *testing.T) {
	t.Parallel()
	o := newOrdered(t)
	o.look(t, o.unprivileged(t, ""), "events")
	tx := o.produce(t, "billing")
	wantContains(t, o.untilNoticed(t), fmt.Sprintf("pid %d (billing)", tx.PgConn().PID()))
	h := o.watermark(t).Holders
	if len(h) != 1 || h[0].PID == nil || *h[0].PID != tx.PgConn().PID() || h[0].State != nil || h[0].Age != nil {
		t.Errorf("the holders are %+v", h)
	}
}

// What is not known of the watermark takes nothing else off the page.
func TestUnreadableWatermark(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		events, before, revoke string
	}{
		"no grant":  {events: "events", revoke: `REVOKE SELECT ON outbox_watermark FROM {role}`},
		"slow view": {events: "slow", before: `CREATE VIEW slow AS SELECT e.* FROM events AS e, pg_sleep(60)`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOrdered(t)
			o.exec(t, test.before)
			o.exec(t, `SELECT outbox_append('b', 'created', '{}')`)
			o.look(t, o.unprivileged(t, test.revoke), test.events)
			body := decode[struct {
				Pending   int
				Watermark watermark
			}](t, call(t, o.server, http.MethodGet, "/api/v1/summary"))
			if body.Pending != 1 || body.Watermark.State != "unknown" {
				t.Errorf("the summary is %+v", body)
			}
			wantContains(t, o.page(t), "postrider status tells why")
			if metrics := call(t, o.server, http.MethodGet, "/metrics").text; strings.Contains(metrics, "\noutbox_watermark") ||
				!strings.Contains(metrics, "\noutbox_pending 1\n") {
				t.Errorf("the metrics are %s", metrics)
			}
		})
	}
}
