package inboxtest_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/inbox/inboxtest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/message"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func balances(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := pgtest.Pool(t, pgtest.URL(t))
	if _, err := pool.Exec(t.Context(), `CREATE TABLE balances (account text PRIMARY KEY, cents bigint)`); err != nil {
		t.Fatal(err)
	}
	return pool
}

func deposit(ctx context.Context, tx pgx.Tx, m message.Message) ([]byte, error) {
	var cents int64
	err := tx.QueryRow(ctx, `INSERT INTO balances AS b VALUES ($1, $2) ON CONFLICT (account) DO UPDATE SET cents = b.cents + EXCLUDED.cents
		RETURNING cents`, m.Stream, len(m.Payload)).Scan(&cents)
	return strconv.AppendInt(nil, cents, 10), err
}

func TestVerify(t *testing.T) {
	t.Parallel()
	pool := balances(t)
	var messages []message.Message
	for v := range int64(4) {
		messages = append(messages, inboxtest.Event("a", v+1, "deposited", []byte("12345")), inboxtest.Event("b", v+1, "deposited", []byte("1")))
	}
	inboxtest.Verify(t, inboxtest.Case{
		Pool: pool, Handler: deposit, Messages: messages,
		Reset: func(ctx context.Context) error {
			_, err := pool.Exec(ctx, `TRUNCATE balances`)
			return err
		},
		State: func(ctx context.Context) (state string, err error) {
			err = pool.QueryRow(ctx, `SELECT string_agg(account || '=' || cents, ' ' ORDER BY account) FROM balances`).Scan(&state)
			return state, err
		},
	})
}

// recorder notes what a kit complains of.
type recorder struct {
	testing.TB

	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed = true }

// A handler that makes its effect outside of the transaction is what the kit is for.
func TestAHandlerBesideTheTransactionIsFoundOut(t *testing.T) {
	t.Parallel()
	pool := balances(t)
	beside := func(ctx context.Context, _ pgx.Tx, m message.Message) ([]byte, error) {
		_, err := pool.Exec(ctx, `INSERT INTO balances AS b VALUES ($1, 1) ON CONFLICT (account) DO UPDATE SET cents = b.cents + 1`, m.Stream)
		return nil, err
	}
	k := inboxtest.New(t, pool, beside)
	m := inboxtest.Event("a", 1, "deposited", nil)
	k.CrashBeforeCommit(m)
	k.Apply(m)
	var cents int
	if err := pool.QueryRow(t.Context(), `SELECT cents FROM balances`).Scan(&cents); err != nil || cents != 2 {
		t.Errorf("the crash went unnoticed: %d, %v", cents, err)
	}
}

func TestTheKitComplains(t *testing.T) {
	t.Parallel()
	r := &recorder{TB: t}
	k := inboxtest.New(r, balances(t), deposit)
	k.Apply(inboxtest.Event("a", 1, "deposited", nil))
	k.Apply(inboxtest.Event("a", 3, "deposited", nil))
	k.Late(inboxtest.Event("a", 2, "deposited", nil))
	k.Repeat(inboxtest.Event("a", 3, "deposited", nil))
	if r.failed || k.Calls() != 2 {
		t.Errorf("a good handler is complained of, after %d calls", k.Calls())
	}
	k.Repeat(inboxtest.Event("a", 4, "deposited", nil))
	if !r.failed {
		t.Error("a repeat that runs is not complained of")
	}
}
