package replay

import (
	"context"
	"embed"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/postrider/postrider/delivery/ops/maintenance"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/internal/pg"
)

//go:embed sql/*.sql
var embedded embed.FS

// Store makes replays and works them off. It may be used by several goroutines if its DB may.
type Store struct {
	db     pg.Conn
	outbox *maintenance.Outbox
	again  func(context.Context) (*Store, error)
	sql    queries
	events string // the relation, quoted
	asked  chan struct{}
	silent *pg.Watch[int64, time.Time] // of replays that were touched later than now
}

type queries struct {
	Jobs, LockReplays, Generation, Create, Choose, Forget, SetSelected, Touch, Take, Due, Ahead, Hold, Advance, Finish pg.Query

	HasStream, Writers, Count, CountCurrent, Unwanted, Waiting, LeaveOut, Troubled pg.Query
	Following, Page, PageOfStream, CurrentPage, CurrentPageOfStream                pg.Query

	ReadyBelow, Backlog, Occupied, Enqueue, Chosen, Retry pg.Query
}

// New returns a store on the tables of that schema and looks at the events
// relation's columns: a missing relation or column is pgstore.ErrEventsRelation.
func New(ctx context.Context, db pg.Conn, schema string, events pgstore.Relation) (*Store, error) {
	outbox, err := maintenance.New(db, schema, "lock_timeout", maintenance.LockPatience.String(), "statement_timeout", "0", "transaction_timeout", "0")
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	of, err := events.Columns(ctx, db, schema, "sequence", "event_id", "stream_id", "stream_version", "event_type", "tenant_id", "recorded_at")
	if err != nil {
		return nil, err
	}
	s := &Store{db: db, outbox: outbox, events: of.Relation, asked: make(chan struct{}, 1), silent: &pg.Watch[int64, time.Time]{}}
	s.again = func(ctx context.Context) (*Store, error) { return New(ctx, db, schema, events) }
	topic, auditOnly := of.OrNull("topic", "text"), of.AuditOnly()
	if err := pg.Fill(embedded, "sql/*.sql", "replay", schema, &s.sql, "{events}", of.Relation,
		"{topic}", topic, "{later_topic}", later(topic), "{audit_only}", auditOnly, "{later_audit_only}", later(auditOnly),
		"{routing_key}", of.OrNull("routing_key", "text")); err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	return s, nil
}

// Renew looks at the events relation's columns again. It returns s where they are the same, or the database is away.
func (s *Store) Renew(ctx context.Context) (*Store, error) {
	renewed, err := s.again(ctx)
	if err != nil || reflect.DeepEqual(renewed.sql, s.sql) {
		return s, err
	}
	return renewed, nil
}

// later renames event e to l in an expression.
func later(expression string) string { return strings.ReplaceAll(expression, "e.", "l.") }

// page returns the statement that reads the next events.
func (s *Store) page(j Job) pg.Query {
	switch current, stream := j.Kind == RebuildCurrent, j.Selection.Stream != ""; {
	case current && stream:
		return s.sql.CurrentPageOfStream
	case current:
		return s.sql.CurrentPage
	case stream:
		return s.sql.PageOfStream
	default:
		return s.sql.Page
	}
}

// among adds the arguments of the selection to those of a statement.
func (s Selection) among(args pg.Args) pg.Args {
	args["stream"], args["type"], args["topic"], args["tenant"] = pg.OrNull(s.Stream), pg.OrNull(s.Type), pg.OrNull(s.Topic), pg.OrNull(s.Tenant)
	args["since"], args["until"] = s.Since, s.Until
	return args
}

// selected adds those of the replay: its last sequence counts where it is for the last event of each stream alone.
func (j Job) selected(args pg.Args) pg.Args {
	if j.Kind == RebuildCurrent {
		args["last"] = j.Last
	}
	return j.Selection.among(args)
}

const uniqueViolation = "23505"

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
