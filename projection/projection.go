package projection

import (
	"context"
	"embed"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/pg"
)

//go:embed sql/*.sql sql/journal/*.sql
var statements embed.FS

// Projection keeps the tables of one Projector in step with the journal. It is safe for concurrent use.
type Projection struct {
	cfg     Config
	log     *slog.Logger
	schema  string    // the projection's, in mode shadow the shadow's
	worker  uuid.UUID // owner of this process's claims
	sql     queries
	journal *journal
	metrics *metrics
	wake    chan struct{} // holds one when there may be something to claim

	mu       sync.Mutex
	failures map[string]int // by stream, in mode shadow, which stores none

	watch pg.Watch[string, int64] // of leases that were taken later than now, by stream: their epochs
}

type queries struct {
	Define, Ensure, Announce, Claim, Ahead, Advance, Lock, Seize, Done, Fail, Release, Put, Requeue, Summary, List, Eligible pg.Query

	Enter, Hasten, Settings, SettingsBack pg.Query
}

// New returns a projection, or ErrConfig. It touches no database.
func New(cfg Config) (*Projection, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	schema := cfg.Schema
	if cfg.Mode == Shadow {
		schema = cfg.ShadowSchema
	}
	p := &Projection{
		cfg: cfg, log: cfg.Logger.With("projection", schema), worker: uuid.New(),
		wake: make(chan struct{}, 1), failures: map[string]int{},
	}
	var err error
	if p.metrics, err = newMetrics(cfg.Registerer, schema); err != nil {
		return nil, fmt.Errorf("%w: Registerer: %w", ErrConfig, err)
	}
	if p.journal, err = newJournal(cfg); err != nil {
		return nil, err
	}
	return p, p.use(schema)
}

func (p *Projection) use(schema string) error {
	p.schema = schema
	if err := pg.Fill(statements, "sql/*.sql", "projection", schema, &p.sql); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return nil
}

// Mode returns the mode of the configuration.
func (p *Projection) Mode() Mode { return p.cfg.Mode }

// Schema returns the schema of the tables: in mode shadow the shadow's.
func (p *Projection) Schema() string { return p.schema }

// Prepare creates the schema, the schedule and the projector's tables where they are missing. It may run in any number
// of processes at once.
func (p *Projection) Prepare(ctx context.Context) error {
	err := p.alone(ctx, "", func(tx pgx.Tx) error {
		// CREATE … IF NOT EXISTS of two sessions at once fails one of them.
		if _, err := tx.Exec(ctx, `SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('postrider projection ' || $1, 0))`, p.schema); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `CREATE SCHEMA IF NOT EXISTS `+quote(p.schema)); err != nil {
			return err
		}
		if _, err := p.sql.Define.Exec(ctx, tx, nil); err != nil {
			return err
		}
		return p.cfg.Projector.Define(ctx, tx)
	})
	if err != nil {
		return fmt.Errorf("prepare projection %s: %w", p.schema, pg.WithCure(err))
	}
	return nil
}

// enter gives a transaction the settings of the projection.
func (p *Projection) enter(ctx context.Context, tx pgx.Tx) error {
	_, err := p.sql.Enter.Exec(ctx, tx, p.settings())
	return err
}

func (p *Projection) settings() pg.Args {
	return pg.Args{"path": quote(p.schema) + ", public", "idle": fmt.Sprint(p.cfg.LeaseTTL.Milliseconds())}
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

func (p *Projection) ring() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

type journal struct {
	pool *pgxpool.Pool // nil: the projection's own database
	sql  struct{ Read, Hidden, Dropped, DroppedTo, Heads pg.Query }
}

func newJournal(cfg Config) (*journal, error) {
	j := &journal{}
	if err := pg.Fill(statements, "sql/journal/*.sql", "projection", cfg.JournalSchema, &j.sql); err != nil {
		return nil, fmt.Errorf("%w: JournalSchema: %w", ErrConfig, err)
	}
	if cfg.Journal != cfg.Pool {
		j.pool = cfg.Journal
	}
	return j, nil
}

// in returns the database that holds the journal.
func (j *journal) in(db pg.DB) pg.DB {
	if j.pool != nil {
		return j.pool
	}
	return db
}

// unhurried collects in a transaction that no time-out ends: a look at all streams takes its time.
func unhurried[T any](ctx context.Context, db pg.DB, collect func(pgx.Tx) ([]T, error)) (all []T, err error) {
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) (err error) {
		if _, err = tx.Exec(ctx, `SELECT pg_catalog.set_config(s, '0', true) FROM pg_catalog.unnest('{statement_timeout,transaction_timeout}'::pg_catalog.text[]) AS s
			WHERE pg_catalog.current_setting(s, true) IS NOT NULL`); err == nil {
			all, err = collect(tx)
		}
		return err
	})
	return all, err
}

// droppedTo returns the last version of a stream that was dropped with all its events, 0 where it was not.
func (j *journal) droppedTo(ctx context.Context, db pg.DB, stream string) (version int64, err error) {
	err = j.sql.DroppedTo.Row(ctx, j.in(db), pg.Args{"stream": stream}).Scan(&version)
	if err != nil {
		return 0, fmt.Errorf("read what was dropped of stream %q: %w", stream, err)
	}
	return version, nil
}

// events reads up to limit events of a stream from a version on.
func (j *journal) events(ctx context.Context, db pg.DB, stream string, from int64, limit int) (events []Event, err error) {
	batch := &pgx.Batch{}
	j.sql.Read.Queue(batch, pg.Args{"stream": stream, "from": from, "limit": limit}).Query(func(rows pgx.Rows) (err error) {
		events, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (e Event, err error) {
			err = row.Scan(&e.Sequence, &e.Stream, &e.Version, &e.ID, &e.Type, &e.Topic, &e.Tenant, &e.Payload, &e.Metadata,
				&e.OccurredAt, &e.RecordedAt, &e.audit, &e.seconds)
			e.read = time.Now()
			return e, err
		})
		return err
	})
	j.sql.Hidden.Queue(batch, nil).QueryRow(j.seen)
	err = j.in(db).SendBatch(ctx, batch).Close()
	if err != nil {
		return nil, fmt.Errorf("read stream %q: %w", stream, err)
	}
	return events, nil
}

// seen returns an error where policies may hide events.
func (j *journal) seen(row pgx.Row) error {
	var hidden bool
	if err := row.Scan(&hidden); err != nil {
		return err
	}
	return pg.Hidden(hidden, "the events")
}
