package inbox

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/closed"
	"github.com/postrider/postrider/internal/pg"
)

// member gives signs of life and takes and gives lanes, until the context ends. Lanes work under the second context.
func (r *reader) member(ctx, work context.Context) {
	failed := false
	r.every(ctx, r.cfg.Interval, func() {
		limited, cancel := context.WithTimeout(work, r.cfg.LeaseTTL) // a beat that the end cuts off could land behind the sign-off
		defer cancel()
		err := r.reconcile(limited, work)
		if err != nil && ctx.Err() == nil && !failed {
			r.log.WarnContext(ctx, "no sign of life could be given; trying again", "error", err)
		}
		if dead := closed.Pool(err); dead != nil {
			r.end(dead)
		}
		failed = err != nil
	})
}

// reconcile is one sign of life. Every reader may have an equal share of the lanes; it gives back the surplus and takes free ones below it.
// The row of a lane alone grants it.
func (r *reader) reconcile(ctx, work context.Context) error {
	share, err := r.share(ctx)
	if err != nil {
		return err
	}
	if err := r.renew(ctx); err != nil {
		return err
	}
	if err := r.dropLost(ctx); err != nil {
		return err
	}
	if err := r.advanceIdle(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	held, all := []int{}, []int{}
	for n, l := range r.lanes {
		all = append(all, n)
		if !l.leaving {
			held = append(held, n)
		}
	}
	slices.Sort(held)
	for len(held) > share {
		r.releaseLocked(work, r.lanes[held[len(held)-1]])
		held = held[:len(held)-1]
	}
	r.mu.Unlock()
	r.box.metrics.lanes.Set(float64(len(held)))
	if len(held) >= share {
		return nil
	}
	return r.acquire(ctx, work, share-len(held), all)
}

// renew reconciles table and memory: it renews the lanes that this reader reads, and lets other rows with its name go.
func (r *reader) renew(ctx context.Context) error {
	known, epochs := []int{}, []int64{}
	r.mu.Lock()
	for n, l := range r.lanes {
		known, epochs = append(known, n), append(epochs, l.epoch)
	}
	r.mu.Unlock()
	args := pg.Args{"consumer": r.box.cfg.Name, "reader": r.id, "ttl": r.cfg.LeaseTTL, "lanes": known, "epochs": epochs}
	if _, err := r.box.sql.Renew.Exec(ctx, r.box.db, args); err != nil {
		return fmt.Errorf("renew lanes: %w", err)
	}
	tag, err := r.box.sql.Disown.Exec(ctx, r.box.db, pg.Args{"consumer": r.box.cfg.Name, "reader": r.id, "known": known})
	if err != nil {
		return fmt.Errorf("let lanes go: %w", err)
	}
	if n := tag.RowsAffected(); n > 0 {
		r.log.WarnContext(ctx, "the table named this reader for lanes that it does not read; they are free", "lanes", n)
	}
	return nil
}

// share returns this reader's quota of lanes.
func (r *reader) share(ctx context.Context) (int, error) {
	name := r.box.cfg.Name
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	args := pg.Args{"consumer": name, "reader": r.id, "hostname": host, "pid": os.Getpid(), "ttl": r.cfg.LeaseTTL}
	if _, err := r.box.sql.Beat.Exec(ctx, r.box.db, args); err != nil {
		return 0, fmt.Errorf("give a sign of life: %w", err)
	}
	readers, err := r.living(ctx)
	if err != nil {
		return 0, err
	}
	r.box.metrics.readers.Set(float64(len(readers)))
	return share(r.count, len(readers), slices.Index(readers, r.id)), nil
}

// share deals lanes out equally: the first readers have one more when it does not come out even. A reader that is not among them gets none.
func share(lanes, readers, rank int) int {
	if rank < 0 {
		return 0
	}
	n := lanes / readers
	if rank < lanes%readers {
		n++
	}
	return n
}

// dropLost ends lanes whose rows name another owner or epoch, or have forgotten the position, as after a failover.
func (r *reader) dropLost(ctx context.Context) error {
	r.mu.Lock()
	mine := map[*lane]uint64{} // read first: a position that the database has confirmed by now
	for _, l := range r.lanes {
		if !l.leaving {
			mine[l] = l.settled.sequence
		}
	}
	r.mu.Unlock()
	rows, err := r.box.sql.Mine.Rows(ctx, r.box.db, pg.Args{"consumer": r.box.cfg.Name, "reader": r.id})
	if err != nil {
		return fmt.Errorf("list lanes: %w", err)
	}
	epochs, positions := map[int]int64{}, map[int]uint64{}
	var number int
	var epoch, position int64
	if _, err := pgx.ForEachRow(rows, []any{&number, &epoch, &position}, func() error {
		epochs[number], positions[number] = epoch, uint64(position)
		return nil
	}); err != nil {
		return fmt.Errorf("list lanes: %w", err)
	}
	for l, known := range mine {
		if epochs[l.number] != l.epoch || positions[l.number] < known {
			r.log.WarnContext(ctx, "lane lost", "lane", l.number, "epoch", l.epoch)
			r.quit(l)
		}
	}
	return nil
}

// acquire takes up to n free lanes and starts their workers.
func (r *reader) acquire(ctx, work context.Context, n int, known []int) error {
	silent, epochs, until, err := r.silent(ctx)
	if err != nil {
		return err
	}
	rows, err := r.box.sql.Acquire.Rows(ctx, r.box.db, pg.Args{
		"consumer": r.box.cfg.Name, "reader": r.id, "ttl": r.cfg.LeaseTTL, "limit": n, "known": known,
		"silent": silent, "silent_epochs": epochs, "silent_until": until,
	})
	if err != nil {
		return fmt.Errorf("take lanes: %w", err)
	}
	var taken []*lane
	var number int
	var epoch, position, at int64
	var careful bool
	_, err = pgx.ForEachRow(rows, []any{&number, &epoch, &position, &at, &careful}, func() error {
		l := newLane(number, epoch, mark{uint64(position), at}, 4*r.cfg.BatchSize)
		if careful {
			l.careful = r.cfg.BatchSize
			r.log.WarnContext(ctx, "lane comes from readers that were lost: its messages are begun one by one", "lane", number, "epoch", epoch)
		}
		taken = append(taken, l)
		return nil
	})
	if err != nil {
		return fmt.Errorf("take lanes: %w", err)
	}
	if len(taken) < n {
		if err := r.restore(ctx); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range taken {
		r.lanes[l.number] = l
		r.background.Go(func() { r.work(work, l) })
		r.log.InfoContext(ctx, "lane taken", "lane", l.number, "epoch", l.epoch, "position", l.settled.sequence)
	}
	if len(taken) > 0 { // also where the pass would bring all of it: the next one asks the stream whether it holds the lane's mark
		r.passLocked()
	}
	return nil
}

// restore adds lane rows that the database has forgotten: no reader could take them.
func (r *reader) restore(ctx context.Context) error {
	var there int
	if err := r.box.sql.Lanes.Row(ctx, r.box.db, pg.Args{"consumer": r.box.cfg.Name}).Scan(&there); err != nil {
		return fmt.Errorf("count lanes: %w", err)
	}
	if there >= r.count {
		return nil
	}
	r.log.ErrorContext(ctx, "the database has forgotten lanes of this consumer; they begin anew", "lanes", r.count-there)
	_, err := r.prepare(ctx, mark{}, time.Time{})
	return err
}

// positionLocked returns the position up to which a lane is settled, with the pass at read.
func (l *lane) positionLocked(read mark) mark {
	if l.pending == 0 && l.ready && !l.leaving {
		return later(later(l.settled, l.enqueued), read)
	}
	return l.settled
}

// advanceIdle stores the positions of lanes with nothing pending.
func (r *reader) advanceIdle(ctx context.Context) error {
	var numbers []int
	var epochs, known, positions, times []int64
	var marks []mark
	r.mu.Lock()
	for _, l := range r.lanes {
		if at := l.positionLocked(r.read); !l.leaving && at.sequence > l.settled.sequence {
			numbers, epochs, marks = append(numbers, l.number), append(epochs, l.epoch), append(marks, at)
			known, positions, times = append(known, int64(l.settled.sequence)), append(positions, int64(at.sequence)), append(times, at.at)
		}
	}
	r.mu.Unlock()
	if len(numbers) == 0 {
		return nil
	}
	_, err := r.box.sql.Advance.Exec(ctx, r.box.db, pg.Args{
		"consumer": r.box.cfg.Name, "reader": r.id, "lanes": numbers, "epochs": epochs, "known": known, "positions": positions, "times": times,
	})
	if err != nil {
		return fmt.Errorf("store positions: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, n := range numbers {
		if l := r.lanes[n]; l != nil && l.epoch == epochs[k] {
			l.settled = later(l.settled, marks[k])
		}
	}
	return nil
}

// releaseLocked lets a lane finish its transaction and gives it back. The next reader reads unfinished messages again.
func (r *reader) releaseLocked(work context.Context, l *lane) {
	if l.leaving {
		return
	}
	position := l.positionLocked(r.read)
	l.leaving = true
	close(l.stop)
	r.background.Go(func() {
		<-l.done
		r.mu.Lock()
		position = later(position, l.settled)
		known := max(l.known, l.settled.sequence)
		r.mu.Unlock()
		err := atLast(work, func(ctx context.Context) error {
			_, err := r.box.sql.Release.Exec(ctx, r.box.db, pg.Args{
				"consumer": r.box.cfg.Name, "lane": l.number, "reader": r.id, "epoch": l.epoch,
				"position": int64(position.sequence), "time": position.at, "known": int64(known),
			})
			return err
		})
		if err != nil {
			r.log.WarnContext(work, "lane could not be given back and runs out", "lane", l.number, "error", err)
		} else {
			r.log.InfoContext(work, "lane given back", "lane", l.number, "epoch", l.epoch, "position", position.sequence)
		}
		r.mu.Lock()
		r.dropLocked(l)
		r.mu.Unlock()
	})
}

// atLast runs one of a reader's last statements, for five seconds, and again where others are in its way.
func atLast(ctx context.Context, do func(context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	for err = do(ctx); outage(err) && ctx.Err() == nil; err = do(ctx) {
		<-time.After(firstPause)
	}
	return err
}

// quit ends a lane that another reader has.
func (r *reader) quit(l *lane) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.leaving {
		return
	}
	l.leaving = true
	close(l.stop)
	r.background.Go(func() {
		<-l.done
		r.mu.Lock()
		defer r.mu.Unlock()
		r.dropLocked(l)
	})
}

// dropLocked forgets a lane whose worker has ended.
func (r *reader) dropLocked(l *lane) {
	delete(r.lanes, l.number)
	r.makeRoomLocked(l, l.ahead)
}

// quitAll ends all lanes.
func (r *reader) quitAll() {
	r.mu.Lock()
	all := slices.Collect(maps.Values(r.lanes))
	r.mu.Unlock()
	for _, l := range all {
		r.quit(l)
	}
}

// signOff deletes the rows of a reader and of those that died.
func (r *reader) signOff(ctx context.Context, id uuid.UUID) error {
	_, err := r.box.sql.Leave.Exec(ctx, r.box.db, pg.Args{"consumer": r.box.cfg.Name, "reader": id})
	return err
}
