package main

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/outbox"
)

// world is a sender's database with the relay, and its caller as a process.
type world struct {
	t       *testing.T // the caller lives as long as the world, whichever test restarted it
	cluster *clustertest.Cluster
	pool    *pgxpool.Pool
	sender  *sender
	flags   []string
	caller  *process
	crash   *crash // of the rows that have the caller die
}

func newWorld(t *testing.T, workers int, flags ...string) *world {
	t.Helper()
	w := &world{t: t, cluster: clustertest.New(t, clustertest.Config{Partitions: 4}), flags: flags}
	w.pool = w.cluster.Pool
	for _, err := range []error{
		prepareSender(t.Context(), w.pool), openAccounts(t.Context(), w.pool, 1_000_000, "home"), prepareBreaking(t.Context(), w.pool),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if w.sender, err = newSender(); err != nil {
		t.Fatal(err)
	}
	w.cluster.Start(t, workers, "--lease-ttl=2s")
	w.call(t)
	return w
}

// call starts the caller, after killing the one that runs.
func (w *world) call(t *testing.T) {
	t.Helper()
	if w.caller != nil {
		w.caller.kill()
	}
	w.caller, _ = launch(w.t, w.cluster.Environment(), false, append([]string{"caller"}, w.flags...)...)
}

// bank is a target behind a gate, with a schema of its own.
type bank struct {
	world   *world
	name    string
	token   string
	gate    *gate
	process *process // nil: it lives in the test's process
	mourner *mourner // in the rows that have the caller die
}

// bank is one that nobody kills: what the command receiver serves, in this process.
func (w *world) bank(t *testing.T, name string) *bank {
	t.Helper()
	b := w.target(t, name)
	config := w.pool.Config()
	config.MaxConns = 8
	config.ConnConfig.RuntimeParams["search_path"] = "bank_" + name
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	handler, err := newBank(t.Context(), pool, "bank_"+name, "home", b.token, program{log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	b.gate.move(server.URL)
	return b
}

// mortal is a bank in a process of its own.
func (w *world) mortal(t *testing.T, name string) *bank {
	t.Helper()
	b := w.target(t, name)
	b.restart(t)
	return b
}

func (w *world) target(t *testing.T, name string) *bank {
	t.Helper()
	b := &bank{world: w, name: name, token: rand.Text(), gate: newGate(t)}
	if err := setTarget(t.Context(), w.pool, name, b.gate.url, b.token); err != nil {
		t.Fatal(err)
	}
	return b
}

// restart starts the receiver, after killing the one that runs.
func (b *bank) restart(t *testing.T) {
	t.Helper()
	if b.process != nil {
		b.process.kill()
	}
	var address string
	environment := append(b.world.cluster.Environment(), "REMOTECALL_TOKEN="+b.token)
	b.process, address = launch(t, environment, true, "receiver", "--schema", "bank_"+b.name)
	b.gate.move(address)
}

// transfer sends money to an account of the bank.
func (b *bank) transfer(t *testing.T, account string, amount int64) (id int64) {
	t.Helper()
	id, err := transfer(t.Context(), b.world.pool, b.world.sender, "home", b.name, deposit{Account: account, Amount: amount})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// balance of an account at the bank.
func (b *bank) balance(t *testing.T, account string) int64 {
	t.Helper()
	var balance int64
	err := b.world.pool.QueryRow(t.Context(), `SELECT balance FROM bank_`+b.name+`.bank_accounts WHERE account = $1`, account).Scan(&balance)
	if err != nil {
		t.Fatal(err)
	}
	return balance
}

// state of a transfer, and whether its call is gone.
func (w *world) state(ctx context.Context, id int64) (state string, gone bool, err error) {
	err = w.pool.QueryRow(ctx, `SELECT state, NOT EXISTS (SELECT FROM remote_calls c WHERE c.call_id = t.call_id)
		FROM bank_transfers t WHERE call_id = $1`, id).Scan(&state, &gone)
	return state, gone, err
}

// waitState waits until a transfer has a state and its call is gone.
func (w *world) waitState(t *testing.T, id int64, want string) {
	t.Helper()
	var state string
	clustertest.Until(t, "the transfer is "+want, func(ctx context.Context) (bool, error) {
		var gone bool
		var err error
		state, gone, err = w.state(ctx, id)
		return state == want && gone, err
	}, func() string { return "it is " + state + "\n" + w.caller.text() })
}

// waitCall waits for a condition on the row of a call.
func (w *world) waitCall(t *testing.T, id int64, condition string) {
	t.Helper()
	clustertest.Until(t, "call: "+condition, func(ctx context.Context) (ok bool, err error) {
		err = w.pool.QueryRow(ctx, `SELECT `+condition+` FROM remote_calls WHERE call_id = $1`, id).Scan(&ok)
		if errors.Is(err, pgx.ErrNoRows) {
			return false, nil
		}
		return ok, err
	}, w.caller.text)
}

// lock holds a row until it is released, so that whoever needs it stands still there; by is the session that has it.
func (w *world) lock(t *testing.T, query string, args ...any) (by uint32, release func()) {
	t.Helper()
	tx, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	release = func() { _ = tx.Rollback(context.Background()) }
	t.Cleanup(release)
	if _, err := tx.Exec(t.Context(), query, args...); err != nil {
		t.Fatal(err)
	}
	return tx.Conn().PgConn().PID(), release
}

// waitBlocked waits until another session stands at the lock of this one.
func (w *world) waitBlocked(t *testing.T, by uint32) {
	t.Helper()
	clustertest.Until(t, "somebody is blocked", func(ctx context.Context) (blocked bool, err error) {
		err = w.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
			AND wait_event_type = 'Lock' AND $1 = ANY (pg_blocking_pids(pid)))`, int32(by)).Scan(&blocked) // a process id
		return blocked, err
	}, w.caller.text)
}

// checkMoney compares what is at home, under way and at the banks with what there was.
func (w *world) checkMoney(t *testing.T, banks ...*bank) {
	t.Helper()
	var schemas []string
	for _, b := range banks {
		schemas = append(schemas, `SELECT sum(balance) FROM bank_`+b.name+`.bank_accounts`)
	}
	slices.Sort(schemas)
	query := `SELECT sum(s)::bigint FROM (SELECT sum(balance) s FROM bank_accounts UNION ALL
		SELECT coalesce(sum(amount), 0) FROM bank_transfers WHERE state IN ('under way', 'unclear') UNION ALL ` +
		strings.Join(schemas, " UNION ALL ") + `) x`
	var sum int64
	if err := w.pool.QueryRow(t.Context(), query).Scan(&sum); err != nil {
		t.Fatal(err)
	}
	if sum != 1_000_000 {
		t.Errorf("there is %d, there was 1000000", sum)
	}
}

// burn uses a sequence of the sender's database.
func (w *world) burn(t *testing.T) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), w.pool, func(tx pgx.Tx) error {
		_, err := w.sender.producer.AppendTx(t.Context(), tx, outbox.Event{StreamID: "nothing", Type: "nothing", AuditOnly: true})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
