package walbell

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/partition"
)

const (
	// longestMaking bounds the wait for transactions that are open, during which the server keeps its log.
	longestMaking = time.Minute
	// longestSilence passes before either side takes the other for gone.
	longestSilence = 30 * time.Second
	// longestEnd bounds the end of a session.
	longestEnd = 2 * time.Second
)

// ahead bytes of log are confirmed as received beyond the received ones. Otherwise the server sends its position whenever it has caught
// up, thousands of times a second where others write: most of the bell's cost.
const ahead = 1 << 30

var errSilent = errors.New("the server is silent")

// connect opens a replication session to where the pool's go. The bounds are the server's too, so that they hold when this process is gone.
func connect(ctx context.Context, pool *pgxpool.Pool) (*pgconn.PgConn, error) {
	full := pool.Config()
	if full.BeforeConnect != nil { // passwords may come from there
		if err := full.BeforeConnect(ctx, full.ConnConfig); err != nil {
			return nil, fmt.Errorf("open a replication session: %w", err)
		}
	}
	config := full.ConnConfig.Config
	config.RuntimeParams["replication"] = "database"
	config.RuntimeParams["application_name"] = sessionName
	conn, err := pgconn.ConnectConfig(ctx, &config)
	if err != nil {
		return nil, fmt.Errorf("open a replication session: %w", explained(err))
	}
	_, err = conn.Exec(ctx, fmt.Sprintf("SET lock_timeout = %d; SET wal_sender_timeout = %d", longestMaking.Milliseconds(), longestSilence.Milliseconds())).ReadAll()
	if err == nil {
		_, err = pglogrepl.IdentifySystem(ctx, conn)
	}
	if err != nil {
		end(ctx, conn)
		return nil, fmt.Errorf("open a replication session: %w", explained(err))
	}
	return conn, nil
}

func end(ctx context.Context, conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), longestEnd)
	defer cancel()
	_ = conn.Close(ctx)
	select {
	case <-conn.CleanupDone():
	case <-ctx.Done():
	}
}

// session hears the log through a slot.
type session struct {
	conn  *pgconn.PgConn
	heard pglogrepl.LSN // everything before was
	last  time.Time     // when anything was heard
	due   func(rings)

	rows      map[uint32]int // the relations that rows are inserted into, with the place of the partition
	open      rings          // for the rows of a transaction whose end was not heard yet
	streaming bool           // amid a large transaction that is still open
}

// open makes the slot, and starts.
func open(ctx context.Context, pool *pgxpool.Pool, slot, publication string, due func(rings)) (*session, error) {
	conn, err := connect(ctx, pool)
	if err != nil {
		return nil, err
	}
	making, cancel := context.WithTimeoutCause(ctx, longestMaking, errors.New("transactions stay open"))
	defer cancel()
	_, err = pglogrepl.CreateReplicationSlot(making, conn, slot, "pgoutput", pglogrepl.CreateReplicationSlotOptions{
		Temporary: true, SnapshotAction: "NOEXPORT_SNAPSHOT", Mode: pglogrepl.LogicalReplication,
	})
	if err != nil {
		if ctx.Err() == nil && making.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(making), err)
		}
		end(ctx, conn)
		return nil, fmt.Errorf("make the slot %s: %w", slot, explained(err))
	}
	err = pglogrepl.StartReplication(ctx, conn, slot, 0, pglogrepl.StartReplicationOptions{
		Mode: pglogrepl.LogicalReplication, PluginArgs: []string{"proto_version '2'", "streaming 'on'", `publication_names '"` + publication + `"'`},
	})
	if err != nil {
		end(ctx, conn)
		return nil, fmt.Errorf("hear the log: %w", explained(err))
	}
	return &session{conn: conn, last: time.Now(), due: due, rows: map[uint32]int{}}, nil
}

// hear rings for commits within a time.
func (s *session) hear(ctx context.Context, length time.Duration) error {
	hearing, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	for {
		message, err := s.conn.ReceiveMessage(hearing)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && hearing.Err() != nil && !s.conn.IsClosed():
			if time.Since(s.last) > longestSilence {
				return errSilent
			}
			return nil
		case err != nil:
			return fmt.Errorf("hear the log: %w", explained(err))
		}
		s.last = time.Now()
		switch message := message.(type) {
		case *pgproto3.ErrorResponse:
			return fmt.Errorf("hear the log: %w", explained(pgconn.ErrorResponseToPgError(message)))
		case *pgproto3.CopyDone:
			return errors.New("the server ended the session")
		case *pgproto3.CopyData:
			if err := s.take(ctx, message.Data); err != nil {
				return err
			}
		}
	}
}

// take reads a message of the replication protocol.
func (s *session) take(ctx context.Context, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	switch data[0] {
	case pglogrepl.PrimaryKeepaliveMessageByteID:
		alive, err := pglogrepl.ParsePrimaryKeepaliveMessage(data[1:])
		if err != nil {
			return fmt.Errorf("hear the log: %w", err)
		}
		s.heard = max(s.heard, alive.ServerWALEnd)
		if alive.ReplyRequested {
			return s.confirm(ctx, false)
		}
	case pglogrepl.XLogDataByteID:
		log, err := pglogrepl.ParseXLogData(data[1:])
		if err != nil || len(log.WALData) == 0 {
			return err
		}
		s.heard = max(s.heard, s.read(log))
	}
	return nil
}

// read rings at the end of a transaction, and returns the position heard.
func (s *session) read(log pglogrepl.XLogData) pglogrepl.LSN {
	switch kind := pglogrepl.MessageType(log.WALData[0]); kind {
	case pglogrepl.MessageTypeStreamStart, pglogrepl.MessageTypeStreamStop:
		s.streaming = kind == pglogrepl.MessageTypeStreamStart
	case pglogrepl.MessageTypeRelation, pglogrepl.MessageTypeInsert:
		s.row(log.WALData)
	case pglogrepl.MessageTypeStreamCommit: // its partitions are not kept
		s.due(rings{every: true})
	case pglogrepl.MessageTypeCommit:
		s.due(s.open)
		s.open = rings{}
		return log.WALStart
	}
	return 0
}

// row notes the partition of a row. An unreadable row is one of any.
func (s *session) row(data []byte) {
	message, err := pglogrepl.ParseV2(data, s.streaming)
	if err != nil {
		s.open.every = true
		return
	}
	switch m := message.(type) {
	case *pglogrepl.RelationMessageV2:
		s.rows[m.RelationID] = slices.IndexFunc(m.Columns, func(c *pglogrepl.RelationMessageColumn) bool { return c.Name == "partition_key" })
	case *pglogrepl.InsertMessageV2:
		if s.streaming {
			return
		}
		place, known := s.rows[m.RelationID]
		if !known || place < 0 || place >= len(m.Tuple.Columns) {
			s.open.every = true
			return
		}
		id, err := strconv.ParseInt(string(m.Tuple.Columns[place].Data), 10, 16)
		if err != nil {
			s.open.every = true
			return
		}
		s.open.add(partition.ID(id))
	}
}

// confirm lets the server forget the log heard, and may ask whether it is there.
func (s *session) confirm(ctx context.Context, ask bool) error {
	if s.heard == 0 {
		return nil
	}
	err := pglogrepl.SendStandbyStatusUpdate(ctx, s.conn, pglogrepl.StandbyStatusUpdate{
		WALWritePosition: s.heard + ahead, WALFlushPosition: s.heard, WALApplyPosition: s.heard, ReplyRequested: ask,
	})
	if err != nil {
		return fmt.Errorf("confirm what was heard: %w", err)
	}
	return nil
}
