package projection

import (
	"context"
	"embed"
	"fmt"
	"log/slog"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/sqlfile"
)

//go:embed sql/*.sql sql/journal/*.sql
var sqlFiles embed.FS

// Projection keeps the tables of one Projector in step with the journal. It is safe for concurrent use.
type Projection struct {
	cfg     Config
	log     *slog.Logger
	schema  string    // where it works: the shadow's in mode shadow
	worker  uuid.UUID // owner of what this process claims
	sql     statements
	journal *journal
	metrics *metrics
	wake    chan struct{} // holds one when there may be something to claim

	mu       sync.Mutex
	failures map[string]int // by stream, in mode shadow, which stores none
}

type statements struct {
	define, claim, lock, done, fail, release, announce, ensure, seize, put, requeue, list, summary, eligible string
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

// use makes the projection work in a schema.
func (p *Projection) use(schema string) error {
	p.schema = schema
	set, err := sqlfile.Load(sqlFiles, "sql", schema)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	s := &p.sql
	for name, text := range map[string]*string{
		"define": &s.define, "claim": &s.claim, "lock": &s.lock, "done": &s.done, "fail": &s.fail, "release": &s.release,
		"announce": &s.announce, "ensure": &s.ensure, "seize": &s.seize, "put": &s.put, "requeue": &s.requeue,
		"list": &s.list, "summary": &s.summary, "eligible": &s.eligible,
	} {
		found, err := set.Need(name)
		if err != nil {
			return err
		}
		*text = found[0]
	}
	return nil
}

// Mode is what the configuration resolved to.
func (p *Projection) Mode() Mode { return p.cfg.Mode }

// Schema is where the tables are: in mode shadow the shadow's.
func (p *Projection) Schema() string { return p.schema }

// Prepare creates the schema, the schedule and the projector's tables where they are missing. It may run in any number
// of processes at once.
func (p *Projection) Prepare(ctx context.Context) error {
	if err := p.define(ctx); err != nil {
		return fmt.Errorf("prepare projection %s: %w", p.schema, err)
	}
	return nil
}

func (p *Projection) define(ctx context.Context) error {
	return pgx.BeginFunc(ctx, p.cfg.Pool, func(tx pgx.Tx) error {
		// CREATE … IF NOT EXISTS of two sessions at once fails one of them.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('postrider projection ' || $1, 0))`, p.schema); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `CREATE SCHEMA IF NOT EXISTS `+quote(p.schema)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, p.sql.define); err != nil {
			return err
		}
		if err := p.enter(ctx, tx); err != nil {
			return err
		}
		return p.cfg.Projector.Define(ctx, tx)
	})
}

// setup has every transaction write the same text for the same values, whatever the role's settings are, and end by
// itself when its process is frozen: a lock must not outlive its owner's lease by much.
const setup = `SELECT set_config('search_path', $1, true), set_config('TimeZone', 'UTC', true), set_config('DateStyle', 'ISO, YMD', true),
	set_config('IntervalStyle', 'postgres', true), set_config('extra_float_digits', '1', true), set_config('bytea_output', 'hex', true),
	set_config('idle_in_transaction_session_timeout', $2, true)`

func (p *Projection) enter(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, setup, p.path(), p.idleLimit())
	return err
}

func (p *Projection) path() string      { return quote(p.schema) + ", public" }
func (p *Projection) idleLimit() string { return fmt.Sprint(p.cfg.LeaseTTL.Milliseconds()) }

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// ring wakes the dispatcher.
func (p *Projection) ring() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// journal reads events.
type journal struct {
	pool        *pgxpool.Pool // nil: the projection's own database
	read, heads string
}

func newJournal(cfg Config) (*journal, error) {
	set, err := sqlfile.Load(sqlFiles, "sql/journal", cfg.JournalSchema)
	if err != nil {
		return nil, fmt.Errorf("%w: JournalSchema: %w", ErrConfig, err)
	}
	texts, err := set.Need("read", "heads")
	if err != nil {
		return nil, err
	}
	j := &journal{read: texts[0], heads: texts[1]}
	if cfg.Journal != cfg.Pool {
		j.pool = cfg.Journal
	}
	return j, nil
}

// events reads up to limit events of a stream from a version on.
func (j *journal) events(ctx context.Context, q querier, stream string, from int64, limit int) ([]Event, error) {
	if j.pool != nil {
		q = j.pool
	}
	rows, err := q.Query(ctx, j.read, stream, from, limit)
	if err != nil {
		return nil, fmt.Errorf("read stream %q: %w", stream, err)
	}
	events, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e Event, err error) {
		err = row.Scan(&e.Sequence, &e.Stream, &e.Version, &e.ID, &e.Type, &e.Topic, &e.Tenant, &e.Payload, &e.Metadata,
			&e.OccurredAt, &e.RecordedAt, &e.audit)
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("read stream %q: %w", stream, err)
	}
	return events, nil
}
