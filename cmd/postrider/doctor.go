package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/condition"
	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/delivery/walbell"
	"github.com/postrider/postrider/heartbeat"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/outbox/schema"
)

type doctorCmd struct {
	databaseFlags
	natsFlags
	streamFlags
	Ordering string `help:"What the workers keep in order: ${enum}." enum:"partition,stream" default:"partition"`
	JSON     bool   `help:"Print a JSON array." name:"json"`

	control streams.Control // as the database has it
}

type finding struct {
	Check  string `json:"check"`
	Level  string `json:"level"` // ok, warning or error
	Detail string `json:"detail"`
}

// The levels of a finding.
const (
	levelOK      = "ok"
	levelWarning = "warning"
	levelError   = "error"
)

func (c *doctorCmd) Run(s *session) error {
	if err := c.databaseFlags.validate(); err != nil {
		return err
	}
	findings, err := c.findings(s.ctx, s.logger())
	if err != nil {
		return err
	}
	if c.JSON {
		err = writeJSON(s.stdout, findings)
	} else {
		var rows []table.Row
		for _, f := range findings {
			rows = append(rows, table.Row{f.Level, f.Check, f.Detail})
		}
		writeTable(s.stdout, table.Row{"", "check", "finding"}, rows)
		fmt.Fprintln(s.stdout, tallied(findings))
	}
	if slices.ContainsFunc(findings, func(f finding) bool { return f.Level == levelError }) {
		return errors.Join(err, errSilent)
	}
	return err
}

// tallied counts the findings of each level, the worst first.
func tallied(findings []finding) string {
	counts := map[string]int64{}
	for _, f := range findings {
		counts[f.Level]++
	}
	return fmt.Sprintf("%s, %s, %d ok", counted(counts[levelError], "error"), counted(counts[levelWarning], "warning"), counts[levelOK])
}

func (c *doctorCmd) findings(ctx context.Context, log *slog.Logger) ([]finding, error) {
	if _, err := wire.ParseSubject(cmp.Or(c.Subject, wire.DefaultSubject)); err != nil {
		return nil, fmt.Errorf("%w: %w", errRefused, err)
	}
	if _, err := c.broker(); err != nil {
		return nil, err
	}
	return slices.Concat(c.checkDatabase(ctx), c.checkBroker(ctx, log)), nil
}

func (c *doctorCmd) checkDatabase(ctx context.Context) []finding {
	pool, err := c.pool(ctx, "postrider doctor", 1)
	if err != nil {
		return []finding{{"database", levelError, redact(err.Error())}}
	}
	defer pool.Close()
	findings := []finding{{"database", levelOK, "reachable"}}
	add := func(check string, err error, detail string) bool {
		f := finding{check, levelOK, detail}
		if err != nil {
			f.Level, f.Detail = levelError, redact(err.Error())
		}
		findings = append(findings, f)
		return err == nil
	}
	server, unread := pgstore.ReadDatabaseServer(ctx, pool)
	add("PostgreSQL version", cmp.Or(unread, checkVersion(server)), server.Version)
	add("primary", cmp.Or(unread, checkPrimary(server)), "the server is a primary")
	add("encoding", cmp.Or(unread, checkEncoding(server)), server.Encoding)
	info, err := checkSchema(ctx, pool, schema.Config{Schema: c.Schema})
	if !add("schema", err, fmt.Sprintf("version %d, %d partitions", info.Version, info.Partitions)) {
		return findings
	}
	c.control = info.control()
	_, err = checkSchema(ctx, pool, schema.Config{Schema: c.Schema, Stream: c.Stream, Subject: c.Subject})
	c.complete(info)
	add("stream settings", err, fmt.Sprintf("stream %s, subjects %s", c.Stream, c.Subject))
	add("server", pgstore.CheckDatabase(ctx, pool), "may be written to")
	ways, err := waysOf(ctx, pool, c.Schema, info.events)
	add("server functions", err, ways)
	readable := add("events relation", err, info.Events+" has the columns that are needed")
	findings = append(findings, pathFinding(server, unread))
	findings = append(findings, creatorFindings(ctx, pool, c.Schema)...)
	findings = append(findings, strangerFindings(ctx, pool, c.Schema)...)
	workers, noWorkers := readWorkers(ctx, pool, c.Schema)
	asked := time.Now()
	leases, noLeases := readLeases(ctx, pool, c.Schema)
	clock := clockFinding(workers, leases, asked, cmp.Or(noWorkers, noLeases))
	if rows := len(leases.Rows); noLeases == nil && rows != int(info.Partitions) {
		noLeases = fmt.Errorf("outbox_partitions holds %d rows, %d are configured; run `postrider partitions sync`", rows, info.Partitions)
	}
	add("partition rows", noLeases, strconv.Itoa(len(leases.Rows)))
	if readable {
		findings = append(findings, orderFindings(ctx, pool, c.Schema, info.events, delivery.Ordering(c.Ordering))...)
		findings = append(findings, roomFindings(ctx, pool, c.Schema, info.events)...)
	}
	return append(findings, commitFinding(server, unread), doorbellFinding(ctx, pool, c.Schema), forgottenFinding(ctx, pool, c.Schema), shapeFinding(workers, noWorkers),
		captureFinding(ctx, pool, c.Schema), conditionFinding(workers, noWorkers), clock)
}

// waysOf names the fallbacks of workers for facts that this server does not report.
func waysOf(ctx context.Context, pool *pgxpool.Pool, schema string, relation pgstore.Relation) (string, error) {
	store, err := pgstore.New(ctx, pool, schema, relation)
	if err != nil {
		return "", err
	}
	leases, err := lease.NewStore(ctx, pool, schema)
	if err != nil {
		return "", err
	}
	var instead []string
	for _, w := range []pg.Way{store.Way(), leases.Way()} {
		if w.Instead != "" {
			instead = append(instead, w.Instead)
		}
	}
	if len(instead) == 0 {
		return "all are there", nil
	}
	return "workers that begin now go other ways: " + strings.Join(instead, "; "), nil
}

func checkVersion(server pgstore.DatabaseServer) error {
	if server.Number < 140000 {
		return fmt.Errorf("PostgreSQL %s is too old; 14 or newer is needed", server.Version)
	}
	return nil
}

func checkEncoding(server pgstore.DatabaseServer) error {
	switch {
	case server.Encoding == "SQL_ASCII":
		return schema.ErrEncoding
	case server.ClientEncoding != pg.Encoding:
		return fmt.Errorf("a pooler gives sessions client_encoding %s, so that names arrive as other bytes; to mend it: set client_encoding to %s there",
			server.ClientEncoding, pg.Encoding)
	}
	return nil
}

func checkPrimary(server pgstore.DatabaseServer) error {
	if server.Standby {
		return errors.New("the server is a standby; rows become visible there in another order, " +
			"connect to the primary (target_session_attrs=read-write)")
	}
	return nil
}

func readWorkers(ctx context.Context, pool *pgxpool.Pool, schema string) (heartbeat.Snapshot, error) {
	store, err := heartbeat.NewStore(pool, schema)
	if err != nil {
		return heartbeat.Snapshot{}, err
	}
	return store.Snapshot(ctx)
}

func readLeases(ctx context.Context, pool *pgxpool.Pool, schema string) (lease.Snapshot, error) {
	store, err := lease.NewStore(ctx, pool, schema)
	if err != nil {
		return lease.Snapshot{}, err
	}
	return store.Snapshot(ctx)
}

// orderFindings checks the preconditions of --ordering.
func orderFindings(ctx context.Context, pool *pgxpool.Pool, schema string, relation pgstore.Relation, order delivery.Ordering) []finding {
	check := "strict order"
	if order == delivery.OrderStream {
		check = "order of streams"
	}
	violations, err := pgstore.CheckStrict(ctx, pool, schema, relation)
	if err != nil {
		return []finding{{check, levelError, redact(err.Error())}}
	}
	findings := make([]finding, 0, len(violations)+1)
	holds := true
	for _, v := range violations {
		level := levelWarning
		switch {
		case v.Forbids(order):
			level, holds = levelError, false
		case order == delivery.OrderStream:
			continue
		}
		findings = append(findings, finding{check + ": " + v.Precondition, level, v.Detail + "; to mend it: " + v.Cure})
	}
	if holds {
		findings = slices.Insert(findings, 0, finding{check, levelOK, "its preconditions hold"})
	}
	return findings
}

// pathFinding reports whether others may change the meaning of the program's statements.
func pathFinding(server pgstore.DatabaseServer, err error) finding {
	const check = "search path"
	switch {
	case err != nil:
		return finding{check, levelError, redact(err.Error())}
	case server.SearchPath != pg.FixedPath:
		return finding{check, levelWarning, "a pooler keeps the program from setting it, and whoever may create in a schema of " + server.SearchPath +
			" says what its statements mean; to mend it, for the role that the pooler logs in as: ALTER ROLE … SET search_path = " + pg.FixedPath}
	}
	return finding{check, levelOK, server.SearchPath}
}

// strangerFindings names functions that others have put beside the outbox's.
func strangerFindings(ctx context.Context, pool *pgxpool.Pool, name string) []finding {
	const check = "functions of strangers"
	strangers, err := schema.Strangers(ctx, pool, name)
	switch {
	case err != nil:
		return []finding{{check, levelError, redact(err.Error())}}
	case len(strangers) == 0:
		return []finding{{check, levelOK, "none beside the outbox's own"}}
	}
	var findings []finding
	for _, one := range strangers {
		findings = append(findings, finding{check, levelError, one.Role + " has put a function beside one of the outbox's, which callers may meet instead; to mend it: " + one.Cure})
	}
	return findings
}

func creatorFindings(ctx context.Context, pool *pgxpool.Pool, name string) []finding {
	const check = "rights on the schema"
	creators, err := schema.Creators(ctx, pool, name)
	switch {
	case err != nil:
		return []finding{{check, levelError, redact(err.Error())}}
	case len(creators) == 0:
		return []finding{{check, levelOK, "nobody but the outbox's owner may create in it"}}
	}
	var findings []finding
	for _, one := range creators {
		findings = append(findings, finding{check, levelWarning, one.String()})
	}
	return findings
}

func commitFinding(server pgstore.DatabaseServer, err error) finding {
	switch {
	case err != nil:
		return finding{"durability", levelError, redact(err.Error())}
	case server.Fsync != "on":
		return finding{"durability", levelWarning, "fsync is off: a crash of the machine can lose published events and use their sequences again"}
	default:
		return finding{"durability", levelOK, "fsync on, synchronous_commit " + server.SynchronousCommit}
	}
}

// doorbellFinding reports who rings the doorbell: the producers, or the log, too.
func doorbellFinding(ctx context.Context, pool *pgxpool.Pool, schema string) finding {
	const check = "doorbell"
	text, err := walbell.Check(ctx, pool, schema)
	if err != nil {
		return finding{check, levelWarning, "events of producers that do not ring wait for polls: " + redact(err.Error())}
	}
	return finding{check, levelOK, text}
}

// forgottenFinding reports published events that a failover or a restore lost: an error for a day, as people must act, then a warning.
func forgottenFinding(ctx context.Context, pool *pgxpool.Pool, schema string) finding {
	const check = "published events"
	at, lately, err := pgstore.Regressed(ctx, pool, schema)
	if err != nil {
		return finding{check, levelError, redact(err.Error())}
	}
	if at == nil {
		return finding{check, levelOK, "none is known to be forgotten by the database"}
	}
	f := finding{check, levelWarning, fmt.Sprintf("the database had forgotten some, noticed last at %s: only the stream knows them, and people must decide about them; "+
		"see outbox_audit, action database.regressed, and docs/runbook.md, PostriderDatabaseRegressed", at.UTC().Format(time.RFC3339))}
	if lately {
		f.Level = levelError
	}
	return f
}

func (c *doctorCmd) checkBroker(ctx context.Context, log *slog.Logger) []finding {
	nc, apiPrefix, err := c.connect("postrider doctor", log, nats.MaxReconnects(0))
	if err != nil {
		f := finding{"broker", levelError, redact(err.Error())}
		if !errors.Is(err, wire.ErrConfig) { // that error has the cure
			f.Detail += "; to mend it: " + cmp.Or(wire.Reason(err), condition.BrokerAway).Cure()
		}
		return []finding{f}
	}
	defer nc.Close()
	findings := []finding{{"broker", levelOK, "nats-server " + nc.ConnectedServerVersion() + " at " + wire.Redact(nc.ConnectedUrl())}}
	c.complete(outboxInfo{}) // defaults, where the database was silent
	subject, err := wire.ParseSubject(c.Subject)
	if err != nil {
		return append(findings, finding{"stream", levelError, redact(err.Error())})
	}
	info, err := streams.EnsureStream(ctx, nc, streams.StreamConfig{Name: c.Stream, APIPrefix: apiPrefix, Subject: subject, Control: c.control, Logger: log})
	if err != nil {
		return append(findings, finding{"stream", levelError, redact(err.Error())})
	}
	findings = append(findings, finding{"stream", levelOK, fmt.Sprintf("%s with %s, %s, max_payload %d",
		info.Config.Name, counted(info.Config.Replicas, "replica"), counted(int64(info.State.Msgs), "message"), nc.MaxPayload())}, streamRoom(info))
	if findings = append(findings, c.fenceFinding(nc, info, subject)); c.control.Outbox != uuid.Nil {
		findings = append(findings, recordsFinding(ctx, natspub.NewRecords(nc, apiPrefix, c.Stream, c.control)))
	}
	return findings
}

// fenceFinding names the workers' way of publishing to the stream, or the reason why they do not start.
func (c *doctorCmd) fenceFinding(nc *nats.Conn, info *jetstream.StreamInfo, subject wire.Subject) finding {
	const check = "fence"
	if c.control.Outbox == uuid.Nil {
		return finding{check, levelWarning, "not checked: which control messages are this outbox's stands in the database"}
	}
	if err := (streams.Needs{Subject: subject, Control: &c.control}).Unmet(info.Config); err != nil {
		return finding{check, levelError, redact(err.Error())}
	}
	if can, why := streams.TakesBatches(nc, info.Config); !can {
		return finding{check, levelWarning, "messages go one by one: " + why + "; a backlog drains slower than by atomic batches"}
	}
	return finding{check, levelOK, "the stream takes fenced batches"}
}

// conditionFinding reports why living workers do not deliver.
func conditionFinding(snapshot heartbeat.Snapshot, err error) finding {
	const check = "workers"
	if err != nil {
		return finding{check, levelError, redact(err.Error())}
	}
	live, told := 0, map[condition.Reason]string{}
	for _, w := range snapshot.Workers {
		if !w.Live() {
			continue
		}
		live++
		if c := w.Condition; c != nil {
			told[c.Reason] = fmt.Sprintf("%s since %s UTC: %s; to mend it: %s", c.Reason, c.Since.UTC().Format(time.DateTime), redact(c.Detail), c.Reason.Cure())
		}
	}
	if len(told) > 0 {
		return finding{check, levelError, "cannot deliver: " + strings.Join(slices.Sorted(maps.Values(told)), "; ")}
	}
	return finding{check, levelOK, fmt.Sprintf("%d living, nothing keeps them from delivering", live)}
}
