package walbell

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/pg"
)

//go:embed sql/*.sql
var files embed.FS

type statements struct {
	Look pg.Query
}

func newStatements(schema string) (sql statements, err error) {
	err = pg.Fill(files, "sql/slot.sql", "walbell", schema, &sql)
	return sql, err
}

// sight is the bell's state in the database.
type sight struct {
	asked       bool // the publication is there
	walLevel    string
	synchronous string // the setting synchronous_standby_names
	slot        string // its name
	holder      int    // the session that has it; 0: none
	made        bool
}

// mostName bounds a name in PostgreSQL, in bytes; it cuts longer ones.
const mostName = 63

// publication returns the name that asks for the bell of a schema.
func publication(schema string) string {
	name := "postrider_" + schema
	return name[:min(len(name), mostName)]
}

func look(ctx context.Context, db pg.RowQuerier, sql statements, schema string) (s sight, err error) {
	err = sql.Look.Row(ctx, db, pg.Args{"publication": publication(schema), "schema": schema}).
		Scan(&s.asked, &s.walLevel, &s.synchronous, &s.slot, &s.holder, &s.made)
	if err != nil {
		return s, fmt.Errorf("look for the log's bell: %w", err)
	}
	return s, nil
}

// sessionName shows in pg_stat_activity and pg_stat_replication.
const sessionName = "postrider bell"

var (
	errLevel = errors.New("wal_level is not logical; to mend it: ALTER SYSTEM SET wal_level = 'logical', and start the server again")
	errAsked = errors.New("synchronous_standby_names could mean the bell's session; to mend it: name the standbys instead of *")
)

// unfit returns why the slot must not or cannot be made.
func (s sight) unfit() error {
	names := strings.ToLower(s.synchronous)
	switch {
	case strings.Contains(names, "*"), strings.Contains(names, sessionName):
		return fmt.Errorf("%w (it is %q)", errAsked, s.synchronous)
	case s.walLevel != "logical":
		return fmt.Errorf("%w (it is %s)", errLevel, s.walLevel)
	}
	return nil
}

// The SQLSTATEs that mean something here.
const (
	slotTaken       = "42710"
	noRight         = "42501"
	noSlotLeft      = "53400"
	noSenderLeft    = "53300"
	waitedTooLong   = "55P03"
	violation       = "08P01"
	syntaxIsUnknown = "42601"
)

// explained adds the cure to an error of the server.
func explained(err error) error {
	var answer *pgconn.PgError
	if !errors.As(err, &answer) {
		return err
	}
	cure := ""
	switch answer.Code {
	case noRight:
		cure = "ALTER ROLE … REPLICATION for the role that logs in, which membership does not inherit (Amazon RDS: GRANT rds_replication)"
	case noSlotLeft:
		cure = "a higher max_replication_slots"
	case noSenderLeft:
		cure = "a higher max_wal_senders, or max_connections"
	case waitedTooLong:
		cure = "end the transactions that stay open, prepared ones among them: the slot waits for them"
	case violation, syntaxIsUnknown:
		cure = "connect past the pooler, which takes no replication sessions"
	default:
		return err
	}
	return fmt.Errorf("%w; to mend it: %s", err, cure)
}

// Check names the ringers for an outbox beside its producers, for people. The error names the obstacle, with its cure; it notices a role
// that could not replicate, too.
func Check(ctx context.Context, pool *pgxpool.Pool, schema string) (string, error) {
	sql, err := newStatements(schema)
	if err != nil {
		return "", err
	}
	s, err := look(ctx, pool, sql, schema)
	switch {
	case err != nil:
		return "", err
	case !s.asked:
		return fmt.Sprintf("producers alone ring; where they do not, events wait for a poll, unless somebody runs: "+
			"CREATE PUBLICATION %q FOR TABLE %q.outbox_ready WITH (publish = 'insert')", publication(schema), schema), nil
	case s.holder != 0 && !s.made:
		return fmt.Sprintf("session %d makes the slot %s, and waits for open transactions", s.holder, s.slot), nil
	case s.holder != 0:
		return fmt.Sprintf("the log rings for commits: session %d holds the slot %s", s.holder, s.slot), nil
	}
	if err := s.unfit(); err != nil {
		return "", err
	}
	conn, err := connect(ctx, pool)
	if err != nil {
		return "", err
	}
	end(ctx, conn)
	return "the log can ring for commits; no worker holds the slot " + s.slot, nil
}
