package lease

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

//go:embed sql/*.sql
var statements embed.FS

// Row is a row of outbox_partitions.
type Row struct {
	Partition partition.ID
	// Owner is uuid.Nil when nobody holds the lease.
	Owner partition.WorkerID
	// Until is the end of the lease by the database's clock; zero without owner.
	Until time.Time
	// Left is the time until then; zero or negative when the lease ran out.
	Left time.Duration
	// Ahead reports whether the lease ends later than it can: the database's clock has stepped back. One that is
	// not renewed for its whole length has run out (Left is 0).
	Ahead     bool
	Epoch     int64
	Delivered int64
	PausedAt  *time.Time
	// Crashes is as in Progress.
	Crashes int
}

// Held reports whether the lease had an owner and had not run out.
func (r Row) Held() bool { return r.Owner != uuid.Nil && r.Left > 0 }

// Snapshot is the table at one instant of the database's clock.
type Snapshot struct {
	At   time.Time
	Rows []Row
	// Frozen reports whether the outbox is frozen: nobody may hold a lease.
	Frozen bool
}

// Owners returns the owners of the leases that had not run out.
func (s Snapshot) Owners() map[partition.ID]partition.WorkerID {
	owners := make(map[partition.ID]partition.WorkerID, len(s.Rows))
	for _, r := range s.Rows {
		if r.Held() {
			owners[r.Partition] = r.Owner
		}
	}
	return owners
}

// Store reads and writes outbox_partitions.
type Store struct {
	db  pg.DB
	way pg.Way // of telling databases apart
	sql queries

	watch pg.Watch[partition.ID, silence] // of leases that are ahead

	// host is this process's, for the history of owners that are no members.
	host string
}

type silence struct {
	epoch int64
	until time.Time
}

type queries struct {
	Snapshot, Count, Acquire, AcquireSolo, LeasedElsewhere              pg.Query
	LockPatience, Renew, RenewFree, Release, Disown, SyncAdd, SyncPrune pg.Query
	LockFreeze, StayIdle, Freeze, Thaw, Census, History, HistoryBegins  pg.Query
}

// NewStore returns a store on the tables of that schema, and reads the rights of this session's role. It fails when the schema is not a
// plain identifier.
func NewStore(ctx context.Context, db pg.DB, schema string) (s *Store, err error) {
	s = &Store{db: db}
	if s.way, err = pg.WayOfIdentity(ctx, db); err != nil {
		return nil, fmt.Errorf("lease store: %w", err)
	}
	if err := pg.Fill(statements, "sql/*.sql", "lease", schema, &s.sql, s.way.Replace...); err != nil {
		return nil, fmt.Errorf("lease store: %w", err)
	}
	if host, err := os.Hostname(); err == nil { // without one the history has none
		s.host = host
	}
	return s, nil
}

// Way returns the way to identify this server's database.
func (s *Store) Way() pg.Way { return s.way }

// Acquire takes the partitions that are free, each under a new epoch; none while the outbox is frozen.
func (s *Store) Acquire(ctx context.Context, owner partition.WorkerID, ttl time.Duration, ids []partition.ID) ([]*Lease, error) {
	return s.take(ctx, owner, ttl, ids, false)
}

// AcquireFrozen is Acquire for the freezer.
func (s *Store) AcquireFrozen(ctx context.Context, owner partition.WorkerID, ttl time.Duration, ids []partition.ID) ([]*Lease, error) {
	return s.take(ctx, owner, ttl, ids, true)
}

func (s *Store) take(ctx context.Context, owner partition.WorkerID, ttl time.Duration, ids []partition.ID, frozen bool) ([]*Lease, error) {
	var silent []partition.ID
	var epochs []int64
	var until []time.Time
	for _, id := range ids {
		if seen, quiet := s.watch.Silent(id); quiet {
			silent, epochs, until = append(silent, id), append(epochs, seen.epoch), append(until, seen.until)
		}
	}
	rows, err := s.sql.Acquire.Rows(ctx, s.db, pg.Args{
		"owner": owner, "ttl": ttl, "partitions": ids, "resizing": frozen, "host": s.host,
		"silent": silent, "silent_epochs": epochs, "silent_until": until,
	})
	if err != nil {
		return nil, fmt.Errorf("acquire leases: %w", err)
	}
	return collectLeases(rows, owner)
}

// ErrLeasedElsewhere is returned to a worker without leasing that is started beside leased ones.
var ErrLeasedElsewhere = errors.New("other workers are running with leases")

// AcquireSolo takes every partition for a worker without leasing; only the history has name. It returns ErrLeasedElsewhere when members
// are alive or leases are held. Terms that end later than they can are first watched for their length.
func (s *Store) AcquireSolo(ctx context.Context, name partition.WorkerID) ([]*Lease, error) {
	standing, _, err := pg.Await(ctx, func(ctx context.Context) ([]pg.Sign[elsewhere], error) {
		return pg.Collect(ctx, s.db, s.sql.LeasedElsewhere, pg.Args{"steady": pg.Steady}, func(row pgx.CollectableRow) (of pg.Sign[elsewhere], err error) {
			err = row.Scan(&of.Key.lease, &of.Key.id, &of.Until, &of.Ahead)
			return of, err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("look for leased workers: %w", err)
	}
	if n := len(standing); n > 0 {
		leases := 0
		for _, sign := range standing {
			if sign.Key.lease {
				leases++
			}
		}
		return nil, fmt.Errorf("%w: %d live workers, %d held leases; stop them or run with leasing", ErrLeasedElsewhere, n-leases, leases)
	}
	rows, err := s.sql.AcquireSolo.Rows(ctx, s.db, pg.Args{"name": name, "host": s.host})
	if err != nil {
		return nil, fmt.Errorf("acquire all partitions: %w", err)
	}
	return collectLeases(rows, uuid.Nil)
}

// elsewhere is a member, or a lease.
type elsewhere struct {
	lease bool
	id    string
}

func collectLeases(rows pgx.Rows, owner partition.WorkerID) ([]*Lease, error) {
	leases, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*Lease, error) {
		var (
			id    partition.ID
			epoch int64
			p     Progress
		)
		err := row.Scan(&id, &epoch, &p.Delivered, &p.FenceSequence, &p.StreamSequence, &p.StreamLife, &p.Crashes, &p.Database)
		return newLease(id, owner, epoch, p), err
	})
	if err != nil {
		return nil, fmt.Errorf("acquire leases: %w", err)
	}
	return leases, nil
}

// Renew extends the leases by ttl from now. It returns the renewed partitions, and the locked ones: their rows carry owner and epoch, but
// another session locks them for longer than patience. A partition in neither was lost, or was acquired from another database.
func (s *Store) Renew(ctx context.Context, owner partition.WorkerID, ttl, patience time.Duration, leases []*Lease) (renewed, locked []partition.ID, err error) {
	ids, epochs := keys(leases)
	// After a failover a row may still carry owner and epoch, while the database forgot reads and marks since its acquisition.
	acquired := make(map[partition.ID]string, len(leases))
	for _, l := range leases {
		acquired[l.Partition] = l.Progress.Database
	}
	batch := &pgx.Batch{}
	s.sql.LockPatience.Queue(batch, pg.Args{"patience": fmt.Sprintf("%dms", max(1, patience.Milliseconds()))})
	held := pg.Args{"owner": owner, "ttl": ttl, "partitions": ids, "epochs": epochs}
	s.sql.Renew.Queue(batch, held).Query(func(rows pgx.Rows) error {
		var id partition.ID
		var database string
		_, err := pgx.ForEachRow(rows, []any{&id, &database}, func() error {
			if acquired[id] == database {
				renewed = append(renewed, id)
			}
			return nil
		})
		return err
	})
	err = s.db.SendBatch(ctx, batch).Close()
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == pgerrLockNotAvailable {
		return s.renewAround(ctx, held, acquired)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("renew leases: %w", err)
	}
	return renewed, nil, nil
}

// pgerrLockNotAvailable is the SQLSTATE of a lock_timeout that ran out.
const pgerrLockNotAvailable = "55P03"

// renewAround renews the unlocked rows of leases from this database.
func (s *Store) renewAround(ctx context.Context, held pg.Args, acquired map[partition.ID]string) (renewed, locked []partition.ID, err error) {
	rows, err := s.sql.RenewFree.Rows(ctx, s.db, held)
	if err != nil {
		return nil, nil, fmt.Errorf("renew leases around locked rows: %w", err)
	}
	var id partition.ID
	var done bool
	var database string
	_, err = pgx.ForEachRow(rows, []any{&id, &done, &database}, func() error {
		switch {
		case acquired[id] != database:
		case done:
			renewed = append(renewed, id)
		default:
			locked = append(locked, id)
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("renew leases around locked rows: %w", err)
	}
	return renewed, locked, nil
}

// Release frees the rows that still carry owner and epoch and returns their partitions.
func (s *Store) Release(ctx context.Context, owner partition.WorkerID, leases []*Lease) ([]partition.ID, error) {
	ids, epochs := keys(leases)
	return s.collectIDs(ctx, "release leases", s.sql.Release, pg.Args{"owner": owner, "partitions": ids, "epochs": epochs})
}

// Disown frees every row of the owner, whatever its epoch, and returns their partitions.
func (s *Store) Disown(ctx context.Context, owner partition.WorkerID) ([]partition.ID, error) {
	return s.collectIDs(ctx, "disown leases", s.sql.Disown, pg.Args{"owner": owner})
}

func keys(leases []*Lease) (ids []partition.ID, epochs []int64) {
	for _, l := range leases {
		ids = append(ids, l.Partition)
		epochs = append(epochs, l.Epoch)
	}
	return ids, epochs
}

func (s *Store) collectIDs(ctx context.Context, operation string, query pg.Query, args pg.Args) ([]partition.ID, error) {
	ids, err := pg.Collect(ctx, s.db, query, args, pgx.RowTo[partition.ID])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", operation, err)
	}
	return ids, nil
}

// Snapshot reads all partitions, sorted.
func (s *Store) Snapshot(ctx context.Context) (Snapshot, error) {
	var snap Snapshot
	var err error
	round := s.watch.Begin()
	snap.Rows, err = pg.Collect(ctx, s.db, s.sql.Snapshot, nil, func(row pgx.CollectableRow) (Row, error) {
		var (
			r     Row
			owner *uuid.UUID
			until *time.Time
			left  *time.Duration
			ttl   *time.Duration
		)
		err := row.Scan(&r.Partition, &owner, &until, &left, &ttl, &r.Epoch, &r.Delivered, &r.PausedAt, &r.Crashes, &snap.At, &snap.Frozen)
		if owner != nil && until != nil && left != nil {
			r.Owner, r.Until, r.Left = *owner, *until, *left
			r.Ahead = ttl != nil && r.Left > *ttl+pg.Steady
		}
		if r.Ahead && round.Same(r.Partition, silence{r.Epoch, r.Until}) >= *ttl {
			round.Mark(r.Partition)
			r.Left = 0
		}
		return r, err
	})
	if err != nil {
		return Snapshot{}, fmt.Errorf("snapshot of partitions: %w", err)
	}
	round.End()
	return snap, nil
}
