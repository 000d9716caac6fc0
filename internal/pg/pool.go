package pg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Connections has the settings of a pool's connections.
type Connections struct {
	// Name shows in pg_stat_activity.
	Name string
	// Most is their largest number; above 0.
	Most int32
	// Keep holds all of them open; else those that nobody uses for a minute end.
	Keep bool
	// DeadPeer is about the time for which the server keeps a session whose client went dark; 0 leaves it to the operating systems.
	DeadPeer time.Duration
	// ReadOnly lets the server refuse every write of these sessions.
	ReadOnly bool
}

// ParseConfig is that of pgxpool, but each connection reads anew the files that the address names, of a password or certificates. Its errors
// hold nothing of the address: of a broken one nobody can tell where the password ends.
func ParseConfig(address string) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(address)
	var unread *pgconn.ParseConfigError
	switch {
	case errors.As(err, &unread):
		unread.ConnString = ""
		why := strings.NewReplacer("cannot parse ``: ", "", `"="`, "=", `"sslcert"`, "sslcert", `"sslkey"`, "sslkey").Replace(unread.Error())
		return nil, errors.New(quoted.ReplaceAllString(why, `"…"`))
	case err != nil:
		return nil, err
	case strayAt.MatchString(address):
		return nil, errors.New("there is an @ behind the host; write / ? @ : and % of a name or password as %2F %3F %40 %3A and %25")
	}
	cfg.BeforeConnect = func(_ context.Context, conn *pgx.ConnConfig) error {
		if now, err := pgx.ParseConfig(address); err == nil { // one that is being written counts next time
			conn.Password, conn.TLSConfig, conn.Fallbacks = now.Password, now.TLSConfig, now.Fallbacks
		}
		return nil
	}
	return cfg, nil
}

var (
	quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	// strayAt matches a URL whose user ended before its password did: the rest would be taken for a host or a database.
	strayAt = regexp.MustCompile(`^\w+://(?:[^@/]*@[^?@]*@|[^@/?]*/[^?@]*@)`)
)

// ConnectTimeout bounds the first contact with the database.
const ConnectTimeout = 10 * time.Second

// Open opens a pool to the server that cfg names and makes sure that it can be reached. The caller's cfg stays as it is.
func (c Connections) Open(ctx context.Context, cfg *pgxpool.Config) (*pgxpool.Pool, error) {
	cfg = cfg.Copy()
	cfg.MaxConns = c.Most
	cfg.MaxConnIdleTime = time.Minute
	if c.Keep {
		cfg.MinConns = c.Most
	}
	cfg.ConnConfig.RuntimeParams["application_name"] = c.Name
	cfg.ConnConfig.RuntimeParams["client_encoding"] = Encoding
	cfg.ConnConfig.RuntimeParams[Backslashes] = "on"
	cfg.ConnConfig.RuntimeParams["search_path"] = FixedPath
	cfg.ConnConfig.RuntimeParams[rowSecurity] = "off"
	if c.ReadOnly {
		cfg.ConnConfig.RuntimeParams[readOnly] = "on"
	}
	cfg.ConnConfig.ConnectTimeout = cmp.Or(cfg.ConnConfig.ConnectTimeout, ConnectTimeout)
	given := cfg.AfterConnect
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if given != nil {
			if err := given(ctx, conn); err != nil {
				return err
			}
		}
		boundValues(conn.TypeMap())
		return c.prepare(ctx, conn)
	}
	if kept := cfg.AfterRelease; !c.ReadOnly {
		cfg.AfterRelease = func(conn *pgx.Conn) bool { return (kept == nil || kept(conn)) && !onStandby(conn) }
	}
	pool, err := reach(ctx, cfg)
	for range 3 { // a pooler names one of them at a time
		for _, name := range []string{Backslashes, "search_path", rowSecurity} {
			if unsupported(err, name) {
				cfg = cfg.Copy()
				delete(cfg.ConnConfig.RuntimeParams, name)
				pool, err = reach(ctx, cfg)
			}
		}
	}
	if unsupported(err, readOnly) {
		err = fmt.Errorf("%w: %w", errNotReadOnly, err)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL at %s:%d: %w", cfg.ConnConfig.Host, cfg.ConnConfig.Port, err)
	}
	return pool, nil
}

// onStandby reports whether a connection came to a standby, as in the midst of a failover: kept, it would miss that its address leads to the
// primary again. PostgreSQL 14 and later report it themselves.
func onStandby(conn *pgx.Conn) bool { return conn.PgConn().ParameterStatus("in_hot_standby") == "on" }

// readOnly is a parameter that no statement sets: a statement's setting stays with a pooler's session when others use it.
const readOnly = "default_transaction_read_only"

// rowSecurity off makes the server refuse, by the table's name, statements from which policies would hide rows.
const rowSecurity = "row_security"

// Backslashes is the parameter that is on where they mean themselves in texts, as in the patterns of the statements here.
const Backslashes = "standard_conforming_strings"

// Encoding holds for all sessions, whatever the database or the role sets: Go's strings are UTF-8.
const Encoding = "UTF8"

var errNotReadOnly = errors.New("a pooler keeps the sessions from being read-only: give the server's own address in --database-url")

// FixedPath is the search_path of all sessions. It protects the program's statements from roles that may create in a schema of the role's own
// path: PostgreSQL prefers a function that matches exactly to a polymorphic one of pg_catalog.
const FixedPath = "pg_catalog, pg_temp"

// reach opens a pool and waits for its first connection.
func reach(ctx context.Context, cfg *pgxpool.Config) (*pgxpool.Pool, error) {
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, ConnectTimeout, errors.New("no answer in time"))
	defer cancel()
	// A pooler that takes no transactions answers every single statement well.
	err = pgx.BeginFunc(ctx, pool, func(pgx.Tx) error { return nil })
	if err == nil {
		return pool, nil
	}
	pool.Close()
	if strings.Contains(err.Error(), "statement pooling mode") {
		return nil, fmt.Errorf("%w: the pooler's pool_mode is statement, which takes no transactions: it must be transaction or session", err)
	}
	return nil, err
}

// unsupported reports whether a pooler does not take that parameter from its clients. A statement's setting would stay with a session that
// others use next; the path is then up to the role's settings, which doctor checks.
func unsupported(err error, parameter string) bool {
	const protocolViolation = "08P01"
	var answer *pgconn.PgError
	return errors.As(err, &answer) && answer.Code == protocolViolation && strings.Contains(answer.Message, parameter)
}

// prepare sets by statements the parameters that poolers refuse at startup.
func (c Connections) prepare(ctx context.Context, conn *pgx.Conn) error {
	switch {
	case c.ReadOnly:
		var is string
		if err := conn.QueryRow(ctx, `SELECT current_setting($1)`, readOnly).Scan(&is); err != nil || is == "on" {
			return err
		}
		return errNotReadOnly // the pooler ignores it
	case c.DeadPeer > 0:
		// The server looks after its client: three probes, so that a session without one ends after about DeadPeer. Connections without
		// TCP ignore it.
		step := strconv.Itoa(int(max(1, (c.DeadPeer/4).Round(time.Second)/time.Second)))
		_, err := conn.Exec(ctx, `SELECT set_config('tcp_keepalives_idle', $1, false), set_config('tcp_keepalives_interval', $1, false),
			set_config('tcp_keepalives_count', '3', false), set_config('tcp_user_timeout', $2, false)`,
			step, strconv.FormatInt(c.DeadPeer.Milliseconds(), 10))
		return err
	}
	return nil
}
