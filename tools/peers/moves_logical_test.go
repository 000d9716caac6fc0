package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/tools/bench/measure"
)

// startLogical is a cluster on a server that relays can read the log of.
func startLogical(t *testing.T, tables string) *clustertest.Cluster {
	t.Helper()
	server := pgtest.Server(t, localpg.Config{Settings: map[string]string{"wal_level": "logical"}})
	postrider().create(t, server.URL())
	c := clustertest.New(t, clustertest.Config{DatabaseURL: server.URL()})
	if _, err := c.Pool.Exec(t.Context(), `CREATE TABLE customers (id uuid PRIMARY KEY DEFAULT gen_random_uuid());`+tables); err != nil {
		t.Fatal(err)
	}
	return c
}

// The table that Debezium's outbox event router reads, whose rows go in the transaction that they came in, and a publication of all tables.
func TestAMoveFromDebezium(t *testing.T) {
	t.Parallel()
	c := startLogical(t, `CREATE TABLE outboxevent (id uuid NOT NULL PRIMARY KEY, aggregatetype varchar(255) NOT NULL, aggregateid varchar(255) NOT NULL,
		type varchar(255) NOT NULL, payload jsonb)`)
	r := reader{slot: "debezium", publication: "dbz_publication", table: "outboxevent", tell: func(m *moving, row map[string]string) error {
		return m.told(row["aggregateid"], []byte(row["payload"]))
	}}
	insert := func(ctx context.Context, tx pgx.Tx, e *measure.PeerEvent) error {
		if _, err := tx.Exec(ctx, `INSERT INTO outboxevent VALUES ($1, 'Account', $2, 'AccountChanged', $3)`, e.ID, e.Stream, e.Payload); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `DELETE FROM outboxevent WHERE id = $1`, e.ID)
		return err
	}
	move(t, c, origin{
		section: "Debezium", prepare: []string{`CREATE PUBLICATION dbz_publication FOR ALL TABLES`, `SELECT pg_create_logical_replication_slot('debezium', 'pgoutput')`},
		drop: "postrider adopt drop", topic: "Account", streams: "Account:", insert: insert, start: r.start,
		leave: func(t *testing.T, m *moving, stop func()) func() {
			t.Helper()
			for _, line := range []string{"BEGIN;", "DROP PUBLICATION", "CREATE PUBLICATION", "COMMIT;"} {
				r.remade += m.next(t, line)
			}
			if _, err := m.Pool.Exec(t.Context(), r.remade); err != nil {
				t.Fatal(err)
			}
			m.more(t, "the connector goes on with another publication", false)
			return r.leave(t, m, stop, insert, "postrider adopt --table")
		},
	})
}

// A table whose changes Sequin tells.
func TestAMoveFromSequin(t *testing.T) {
	t.Parallel()
	c := startLogical(t, ``)
	r := reader{slot: "sequin_slot", publication: "sequin_pub", table: "accounts", tell: func(m *moving, row map[string]string) error {
		return m.told(row["id"], []byte(`{"version": `+row["version"]+`}`))
	}}
	insert := func(context.Context, pgx.Tx, *measure.PeerEvent) error { return nil } // the change is the event
	move(t, c, origin{
		section: "Sequin", prepare: []string{`CREATE PUBLICATION sequin_pub FOR TABLE accounts, customers`, `SELECT pg_create_logical_replication_slot('sequin_slot', 'pgoutput')`},
		drop: "postrider capture drop", insert: insert, start: r.start,
		leave: func(t *testing.T, m *moving, stop func()) func() {
			t.Helper()
			return r.leave(t, m, stop, insert, "postrider capture --table")
		},
	})
}

// reader reads a slot through a publication, as connectors do: it confirms the end of a transaction when it has told its rows.
type reader struct {
	slot, publication, table string
	tell                     func(m *moving, row map[string]string) error
	remade                   string
}

// leave has the trigger made while the reader is behind and a transaction is open, and lets it read what is its own.
func (r *reader) leave(t *testing.T, m *moving, stop func(), insert insertion, line string) func() {
	t.Helper()
	stop()
	m.WaitCount(t, 20_000, `SELECT pg_current_wal_lsn() - confirmed_flush_lsn FROM pg_replication_slots`) // bytes of log
	tx, err := m.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), `INSERT INTO customers DEFAULT VALUES`); err != nil {
		t.Fatal(err)
	}
	m.postrider(t, line)
	e := measure.PeerEvent{ID: uuid.New(), Stream: "spanning", Version: 1, Payload: `{"version": 1}`}
	_, err = tx.Exec(t.Context(), `UPDATE accounts SET version = version + 1 WHERE id = $1`, e.Stream)
	if err := errors.Join(err, insert(t.Context(), tx, &e), tx.Commit(t.Context())); err != nil {
		t.Fatal(err)
	}
	m.WaitCount(t, some, `SELECT count(*) FROM outbox`)
	m.sql(t, "SELECT pg_current_wal_lsn()")
	stop = r.start(t, m)
	m.ask(t, "SELECT confirmed_flush_lsn")
	return stop
}

func (r *reader) start(t *testing.T, m *moving) func() {
	t.Helper()
	config := m.Pool.Config().ConnConfig.Copy().Config
	config.RuntimeParams["replication"] = "database"
	conn, err := pgconn.ConnectConfig(t.Context(), &config)
	if err != nil {
		t.Fatal(err)
	}
	err = pglogrepl.StartReplication(t.Context(), conn, r.slot, 0, pglogrepl.StartReplicationOptions{
		Mode: pglogrepl.LogicalReplication, PluginArgs: []string{"proto_version '1'", `publication_names '"` + r.publication + `"'`},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &reading{reader: r, m: m, conn: conn, relations: map[uint32]*pglogrepl.RelationMessage{}}
	ending, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		if err := s.read(t.Context(), ending); err != nil {
			t.Errorf("read slot %s: %v", r.slot, err)
		}
	}()
	return func() {
		close(ending)
		<-ended
		// A confirmation that is under way is lost where the server finds the session closed, and what was told is told again.
		clustertest.Until(t, "the slot is where the reader is", func(ctx context.Context) (there bool, err error) {
			return there, m.Pool.QueryRow(ctx, `SELECT confirmed_flush_lsn >= $2::pg_lsn FROM pg_replication_slots WHERE slot_name = $1`, r.slot, s.confirmed.String()).Scan(&there)
		}, nil)
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
		clustertest.Until(t, "the slot is free", func(ctx context.Context) (free bool, err error) {
			return free, m.Pool.QueryRow(ctx, `SELECT NOT active FROM pg_replication_slots WHERE slot_name = $1`, r.slot).Scan(&free)
		}, nil)
	}
}

// reading is a session of a reader.
type reading struct {
	*reader

	m         *moving
	conn      *pgconn.PgConn
	relations map[uint32]*pglogrepl.RelationMessage
	within    bool // a transaction
	confirmed pglogrepl.LSN
}

// lookUp is how often a reading without messages looks whether it shall end.
const lookUp = 20 * time.Millisecond

func (s *reading) read(ctx context.Context, ending <-chan struct{}) error {
	for {
		select {
		case <-ending:
			if !s.within {
				return nil
			}
		default:
		}
		look, cancel := context.WithTimeout(ctx, lookUp)
		message, err := s.conn.ReceiveMessage(look)
		cancel()
		switch {
		case pgconn.Timeout(err):
			continue
		case err != nil:
			return err
		}
		data, is := message.(*pgproto3.CopyData)
		if !is {
			continue
		}
		if err := s.take(ctx, data.Data); err != nil {
			return err
		}
	}
}

func (s *reading) take(ctx context.Context, data []byte) error {
	confirm := func(at pglogrepl.LSN) error {
		s.confirmed = at
		return pglogrepl.SendStandbyStatusUpdate(ctx, s.conn, pglogrepl.StandbyStatusUpdate{WALWritePosition: at})
	}
	switch data[0] {
	case pglogrepl.PrimaryKeepaliveMessageByteID:
		alive, err := pglogrepl.ParsePrimaryKeepaliveMessage(data[1:])
		if err != nil || s.within {
			return err
		}
		return confirm(alive.ServerWALEnd)
	case pglogrepl.XLogDataByteID:
		log, err := pglogrepl.ParseXLogData(data[1:])
		if err != nil {
			return err
		}
		message, err := pglogrepl.Parse(log.WALData)
		if err != nil {
			return err
		}
		switch message := message.(type) {
		case *pglogrepl.RelationMessage:
			s.relations[message.RelationID] = message
		case *pglogrepl.BeginMessage:
			s.within = true
		case *pglogrepl.InsertMessage:
			return s.row(message.RelationID, message.Tuple)
		case *pglogrepl.UpdateMessage:
			return s.row(message.RelationID, message.NewTuple)
		case *pglogrepl.CommitMessage:
			s.within = false
			return confirm(message.TransactionEndLSN)
		}
	}
	return nil
}

func (s *reading) row(relation uint32, tuple *pglogrepl.TupleData) error {
	if s.relations[relation].RelationName != s.table {
		return nil
	}
	row := map[string]string{}
	for i, c := range tuple.Columns {
		row[s.relations[relation].Columns[i].Name] = string(c.Data)
	}
	return s.tell(s.m, row)
}
