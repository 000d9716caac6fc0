package capture_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/outbox/capture"
)

const there = 3000 // rows before a capture begins

// wantBackfilled follows each row: what was there comes first in its stream, and the last event says what the table holds.
func wantBackfilled(t *testing.T, l lab) {
	t.Helper()
	if n := one[int](t, l, `SELECT count(*) FROM events WHERE event_type = 'rows.read' AND stream_version <> 1`); n != 0 {
		t.Errorf("%d rows that were there come behind a change of theirs", n)
	}
	if got := one[string](t, l, `
		WITH last AS (SELECT DISTINCT ON (stream_id) stream_id, convert_from(payload, 'UTF8')::jsonb -> 'new' AS row FROM events ORDER BY stream_id, stream_version DESC),
		     held AS (SELECT format('public.rows:["%s", %s]', a, b) AS stream_id, to_jsonb(r) AS row FROM rows AS r)
		SELECT coalesce(string_agg(format('%s: told %s, held %s', stream_id, last.row, held.row), E'\n'), '')
		  FROM (SELECT * FROM last WHERE row IS NOT NULL AND row <> 'null') AS last FULL JOIN held USING (stream_id) WHERE last.row IS DISTINCT FROM held.row`); got != "" {
		t.Errorf("the last events say otherwise than the table:\n%.2000s", got)
	}
}

// rows are there, and writers change them until they are told to stop.
func (l lab) rows(t *testing.T) (stop func()) {
	t.Helper()
	l.run(t, `CREATE TABLE rows (a text COLLATE "C", b int, v int NOT NULL DEFAULT 0, PRIMARY KEY (a, b))`,
		fmt.Sprintf(`INSERT INTO rows SELECT chr(97 + n %% 7), n FROM generate_series(1, %d) AS n`, there))
	var changed atomic.Int64
	ended := make(chan struct{})
	group, ctx := errgroup.WithContext(t.Context())
	for range 3 {
		group.Go(func() error {
			for {
				select {
				case <-ended:
					return nil
				default:
				}
				first := 1 + rand.IntN(there)
				err := pgx.BeginFunc(ctx, l.Pool, func(tx pgx.Tx) error {
					for _, b := range []int{first, first + rand.IntN(200)} { // in one order, as the application does that wants no deadlock
						for _, sql := range [][]string{
							{`UPDATE rows SET v = v + 1 WHERE b = $1`},
							{`DELETE FROM rows WHERE b = $1`},
							{`INSERT INTO rows VALUES ('z', $1) ON CONFLICT DO NOTHING`},
							{`UPDATE rows SET a = chr(97 + (b + v) % 9), v = v + 1 WHERE b = $1 AND NOT EXISTS (SELECT FROM rows AS r WHERE r.b = $1 AND r.a = chr(97 + (rows.b + rows.v) % 9))`},
						}[rand.IntN(4)] {
							if _, err := tx.Exec(ctx, sql, b); err != nil {
								return err
							}
						}
					}
					if rand.IntN(5) == 0 {
						return errBack
					}
					return nil
				})
				if err != nil && !errors.Is(err, errBack) && !strings.Contains(err.Error(), "23505") {
					return err
				}
				changed.Add(1)
			}
		})
	}
	clustertest.Until(t, "rows change", func(context.Context) (bool, error) { return changed.Load() > 20, ctx.Err() }, nil)
	return func() {
		t.Helper()
		close(ended)
		if err := group.Wait(); err != nil {
			t.Errorf("the application's statement fails: %v", err)
		}
		t.Logf("%d transactions", changed.Load())
	}
}

// Under writers each row that was there is told before its later changes, and none after its end.
func TestABackfillUnderWriters(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	stop := l.rows(t)
	done, err := l.Capture(t.Context(), capture.Capture{Table: "rows"}, capture.Options{Backfill: true, LockTimeout: clustertest.Patience})
	stop()
	if err != nil {
		t.Fatal(err)
	}
	if done.Imported == 0 || done.Imported > done.Waiting {
		t.Errorf("%d of %d rows were told", done.Imported, done.Waiting)
	}
	wantBackfilled(t, l)
	if again, err := l.Capture(t.Context(), capture.Capture{Table: "rows"}, capture.Options{Backfill: true}); err != nil || again.Imported != done.Imported {
		t.Errorf("once more: %+v, %v", again, err)
	}
	wantBackfilled(t, l)
	t.Logf("%d of %d rows were told", done.Imported, done.Waiting)
}

// A backfill that is killed goes on where it was, whenever that happens.
func TestABackfillIsKilled(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	stop := l.rows(t)
	for kills := 0; ; kills++ {
		cfg, err := pgxpool.ParseConfig(l.url)
		if err != nil {
			t.Fatal(err)
		}
		cfg.ConnConfig.RuntimeParams["application_name"] = "backfiller"
		pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		killed := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { // in the middle of whatever it does
			for n := 0; n == 0 && ctx.Err() == nil && kills < 12; {
				if err := l.QueryRow(ctx, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'backfiller' AND datname = current_database()
					AND strpos(query, $1) > 0`, []string{"FOR SHARE", "COMMENT ON", "outbox_append_batch", "LOCK TABLE", "commit"}[kills%5]).Scan(&n); err != nil {
					killed <- err
					return
				}
			}
			killed <- nil
		}()
		done, err := labAt(t, l.url, pool).Capture(t.Context(), capture.Capture{Table: "rows"}, capture.Options{Backfill: true, LockTimeout: clustertest.Patience})
		cancel()
		if failed := <-killed; failed != nil && !errors.Is(failed, context.Canceled) {
			t.Fatal(failed)
		}
		pool.Close()
		if err == nil {
			t.Logf("killed %d times, %d of %d rows were told", kills, done.Imported, done.Waiting)
			break
		}
	}
	stop()
	wantBackfilled(t, l)
}

// What cannot be told once, or only with the rights of who owns it, is refused by name.
func TestABackfillIsRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	owner := l.role(t)
	l.run(t, `CREATE TABLE lines (id int, of int NOT NULL)`, `CREATE TABLE theirs (id int PRIMARY KEY)`, `GRANT USAGE, CREATE ON SCHEMA public TO `+owner,
		`GRANT EXECUTE ON FUNCTION outbox_append_bytes TO `+owner, `ALTER TABLE theirs OWNER TO `+owner, `ALTER ROLE `+owner+` LOGIN PASSWORD '`+owner+`'`, `CREATE TABLE odd ("I d" text PRIMARY KEY, v int, secret text)`,
		`INSERT INTO odd VALUES ('it''s'||E'\n', 1, 's'), ('plain', 2, 's')`)
	o := capture.Options{Backfill: true}
	_, err := l.Capture(t.Context(), capture.Capture{Table: "lines"}, o)
	wantRefused(t, err, "--key", "lines")
	_, err = l.Capture(t.Context(), capture.Capture{Table: "lines", Key: []string{"of"}}, o)
	wantRefused(t, err, "--backfill", "lines", "of")
	_, err = l.Capture(t.Context(), capture.Capture{Table: "theirs"}, o)
	wantRefused(t, err, "--backfill", owner)
	cfg, err := pgxpool.ParseConfig(l.url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.User, cfg.ConnConfig.Password = owner, owner
	login, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer login.Close()
	_, err = labAt(t, l.url, login).Capture(t.Context(), capture.Capture{Table: "theirs"}, o)
	wantRefused(t, err, "GRANT SELECT ON", "outbox_append_batch")
	if n := one[int](t, l, `SELECT count(*) FROM pg_trigger WHERE tgname LIKE '00\_%'`); n != 0 {
		t.Errorf("%d triggers were made", n)
	}
	c := capture.Capture{Table: "odd", Exclude: []string{"secret"}, Type: "odd.{operation}"}
	l.capture(t, c)
	l.run(t, `UPDATE odd SET v = 3 WHERE v = 1`, `ALTER TABLE odd RENAME v TO w`)
	if done, err := l.Capture(t.Context(), c, o); err != nil || done.Imported != 2 {
		t.Errorf("%+v, %v", done, err)
	}
	const stream = `(SELECT string_agg(format('%s %s %s', stream_version, event_type, convert_from(payload, 'UTF8')), ' | ' ORDER BY sequence) FROM events WHERE stream_id = `
	for of, want := range map[string]string{
		`'public.odd:plain'`:                         `1 odd.read {"new":{"I d":"plain","w":2}}`,
		`outbox_adopted_name(E'public.odd:it''s\n')`: `1 odd.updated {"new":{"I d":"it's\n","v":3}} | 2 odd.read {"new":{"I d":"it's\n","w":3}}`,
	} {
		if got := one[string](t, l, `SELECT `+stream+of+`)`); got != want {
			t.Errorf("told %s, want %s", got, want)
		}
	}
}

// A row that somebody holds, and gives back unchanged, is told, too.
func TestABackfillWaitsForARow(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE held (id int PRIMARY KEY)`, `INSERT INTO held VALUES (1), (2), (3)`)
	writer, err := l.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Rollback(t.Context())
	if _, err := writer.Exec(t.Context(), `SELECT FROM held WHERE id = 2 FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	pages := make(chan struct{}, 9)
	group, ctx := errgroup.WithContext(t.Context())
	var done capture.Done
	group.Go(func() (err error) {
		done, err = l.Capture(ctx, capture.Capture{Table: "held"}, capture.Options{Backfill: true, Progress: func(int64, int64) { pages <- struct{}{} }})
		return err
	})
	<-pages // the first row is told
	if err := errors.Join(writer.Rollback(t.Context()), group.Wait()); err != nil {
		t.Fatal(err)
	}
	if done.Imported != 3 {
		t.Errorf("%d rows were told, want 3", done.Imported)
	}
}

// A page that is refused again and again is tried after growing pauses.
func TestABackfillPausesWhereItIsRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE rows (a int PRIMARY KEY)`, `INSERT INTO rows VALUES (1)`, `CREATE SEQUENCE tries`,
		`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('public.tries'); RAISE EXCEPTION 'taken' USING ERRCODE = '23505'; END $$`,
		`CREATE TRIGGER refuse BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION refuse()`)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := l.Capture(ctx, capture.Capture{Table: "rows"}, capture.Options{Backfill: true}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it returns %v", err)
	}
	if n := one[int64](t, l, `SELECT last_value FROM tries`); n > 12 {
		t.Errorf("it tried %d times in 2 s", n)
	}
}

// A role's statement_timeout ends neither a capture nor its backfill: a locked table stands for a large one.
func TestACaptureOutlastsTheLimitOfStatements(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.run(t, `CREATE TABLE large (id int PRIMARY KEY)`, `INSERT INTO large VALUES (1), (2)`)
	config, err := pgxpool.ParseConfig(l.url)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.RuntimeParams["statement_timeout"] = "100ms"
	limited, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer limited.Close()
	store, err := capture.New(limited, "public")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time it is there
		holder, err := l.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer holder.Rollback(context.WithoutCancel(t.Context()))
		if _, err := holder.Exec(t.Context(), `LOCK TABLE large IN ACCESS EXCLUSIVE MODE`); err != nil {
			t.Fatal(err)
		}
		group, ctx := errgroup.WithContext(t.Context())
		group.Go(func() error {
			_, err := store.Capture(ctx, capture.Capture{Table: "large"}, capture.Options{Backfill: true, LockTimeout: time.Minute})
			return err
		})
		clustertest.Until(t, "it waits longer than the limit", func(ctx context.Context) (waits bool, err error) {
			err = l.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'large'::regclass AND NOT granted AND waitstart < clock_timestamp() - interval '300 ms')`).Scan(&waits)
			return waits, errors.Join(err, context.Cause(ctx))
		}, nil)
		if err := errors.Join(holder.Rollback(t.Context()), group.Wait()); err != nil {
			t.Fatal(err)
		}
	}
	if n := one[int](t, l, `SELECT count(*) FROM events`); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
}

// A key that becomes another amid a backfill costs no row: it goes on, or says what to do.
func TestAKeyChangesAmidABackfill(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		alters string
		again  capture.Capture
		cure   string
	}{
		"NULL":          {`ALTER TABLE c ALTER k DROP NOT NULL; UPDATE c SET k = NULL WHERE k = 700; INSERT INTO c VALUES (NULL, 0)`, capture.Capture{}, ""},
		"another name":  {`ALTER TABLE c RENAME k TO "K 2"; ALTER TABLE c RENAME n TO k`, capture.Capture{}, ""},
		"another type":  {`ALTER TABLE c ALTER k TYPE text USING lpad(k::text, 9, '0')`, capture.Capture{}, ""},
		"dropped":       {`ALTER TABLE c DROP COLUMN k, ADD PRIMARY KEY (n)`, capture.Capture{Table: "c", Key: []string{"n"}}, "--key"},
		"another table": {`ALTER TABLE c RENAME TO d`, capture.Capture{Table: "d"}, "--table"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.run(t, `CREATE TABLE c (k int NOT NULL UNIQUE, n int)`, `INSERT INTO c SELECT i, i FROM generate_series(1, 1000) AS i`)
			pages := 0
			o := capture.Options{Backfill: true, Progress: func(int64, int64) {
				if pages++; pages == 2 {
					l.run(t, c.alters)
				}
			}}
			_, err := l.Capture(t.Context(), capture.Capture{Table: "c", Key: []string{"k"}}, o)
			if c.cure != "" {
				wantRefused(t, err, c.cure)
				_, err = l.Capture(t.Context(), c.again, capture.Options{Backfill: true, Replace: true, Confirmed: true})
			}
			if err != nil {
				t.Error(err)
			}
			if n := one[int](t, l, `SELECT count(DISTINCT coalesce(convert_from(payload, 'UTF8')::jsonb #>> '{new,n}', convert_from(payload, 'UTF8')::jsonb #>> '{new,k}')) FROM events WHERE event_type <> 'c.deleted'`); n < 1000 {
				t.Errorf("%d rows are told of 1000", n)
			}
		})
	}
}
