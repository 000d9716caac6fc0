package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

// banks of the demo, and how their answers are spoiled.
var demoBanks = map[string]func(http.Handler) http.Handler{
	"north": func(h http.Handler) http.Handler { return h },
	"slow":  slowly,
	"lossy": losing,
}

// slowly answers every call 200 ms late.
func slowly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		timer := time.NewTimer(200 * time.Millisecond)
		defer timer.Stop()
		select {
		case <-r.Context().Done():
		case <-timer.C:
			h.ServeHTTP(w, r)
		}
	})
}

// losing executes every call and breaks the connection instead of every second answer.
func losing(h http.Handler) http.Handler {
	var n atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1)%2 == 0 {
			h.ServeHTTP(w, r)
			return
		}
		h.ServeHTTP(discard{http.Header{}}, r)
		panic(http.ErrAbortHandler)
	})
}

// discard takes an answer and throws it away.
type discard struct{ header http.Header }

func (d discard) Header() http.Header       { return d.header }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}

// demo is the command demo: it sends transfers to three banks and counts the money.
func demo(ctx context.Context, p program) error {
	calls := p.flags.Int("calls", 20, "transfers to each bank, 1 or more; every tenth goes to an account that does not exist")
	verbose := p.flags.Bool("v", false, "show the log")
	if err := p.flags.Parse(p.args); err != nil {
		return err
	}
	if *calls < 1 {
		return fmt.Errorf("--calls must be at least 1, got %d", *calls)
	}
	if !*verbose {
		p.log = slog.New(slog.DiscardHandler)
	}
	p.args = nil
	return p.with(ctx, 0, 0, func(home *pgxpool.Pool, _ []string) error {
		nc, err := connect()
		if err != nil {
			return err
		}
		defer nc.Close()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		group, ctx := errgroup.WithContext(ctx)
		pools := map[string]*pgxpool.Pool{"home": home}
		for name, spoil := range demoBanks {
			pool, err := open(ctx, "bank_"+name)
			if err != nil {
				return err
			}
			defer pool.Close()
			pools[name] = pool
			handler, listener, err := demoBank(ctx, p, home, pool, name)
			if err != nil {
				return err
			}
			group.Go(func() error { return serveHTTP(ctx, listener, spoil(handler)) })
		}
		group.Go(func() error { return serveCalls(ctx, home, nc, callerConfig{Callbacks: callbacks(), Log: p.log}) })
		before, err := money(ctx, pools)
		if err == nil {
			err = demoTransfers(ctx, p, home, *calls)
		}
		if err == nil {
			err = demoVerdict(ctx, p, pools, before)
		}
		cancel()
		if broken := group.Wait(); broken != nil {
			return errors.Join(broken, err)
		}
		return err
	})
}

func demoBank(ctx context.Context, p program, home, pool *pgxpool.Pool, name string) (*receiver, net.Listener, error) {
	token := rand.Text()
	bank, err := newBank(ctx, pool, "bank_"+name, "home", token, p)
	if err != nil {
		return nil, nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	return bank, listener, setTarget(ctx, home, name, "http://"+listener.Addr().String(), token)
}

func demoTransfers(ctx context.Context, p program, home *pgxpool.Pool, calls int) error {
	s, err := newSender()
	if err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "%d transfers to each of %d banks; one is slow, one loses every second answer\n", calls, len(demoBanks))
	for i := range calls {
		for name := range demoBanks {
			account := "alice"
			if i%10 == 9 {
				account = "nobody"
			}
			if _, err := transfer(ctx, home, s, "home", name, deposit{Account: account, Amount: int64(i + 1)}); err != nil {
				return err
			}
		}
	}
	return nil
}

// money is the sum of all accounts and of the transfers under way.
func money(ctx context.Context, pools map[string]*pgxpool.Pool) (sum int64, err error) {
	for name, pool := range pools {
		var here int64
		query := `SELECT coalesce(sum(balance), 0)::bigint FROM bank_accounts`
		if name == "home" {
			query = `SELECT coalesce(sum(balance), 0)::bigint + (SELECT coalesce(sum(amount), 0)::bigint FROM bank_transfers
				WHERE state = 'under way') FROM bank_accounts`
		}
		if err := pool.QueryRow(ctx, query).Scan(&here); err != nil {
			return 0, err
		}
		sum += here
	}
	return sum, nil
}

// demoVerdict waits until no call is left and compares the money.
func demoVerdict(ctx context.Context, p program, pools map[string]*pgxpool.Pool, before int64) error {
	for began := time.Now(); ; {
		list, err := status(ctx, pools["home"])
		if err != nil {
			return err
		}
		left := 0
		for _, s := range list {
			left += s.Unarrived + s.Waiting + s.Callbacks
			if s.Dead > 0 {
				return fmt.Errorf("%d callbacks of %s are dead: %s", s.Dead, s.Target, s.LastError)
			}
		}
		if left == 0 {
			fmt.Fprintf(p.stdout, "all calls are finished after %.1f s\n", time.Since(began).Seconds())
			break
		}
		if err := printStatus(p.stdout, list, false); err != nil {
			return err
		}
		if !pause(ctx, nil, time.Second) {
			return ctx.Err()
		}
	}
	after, err := money(ctx, pools)
	if err != nil {
		return err
	}
	rows, err := pools["home"].Query(ctx, `SELECT state || ' ' || count(*) FROM bank_transfers GROUP BY state ORDER BY state`)
	if err != nil {
		return err
	}
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return err
		}
		fmt.Fprintln(p.stdout, line)
	}
	fmt.Fprintf(p.stdout, "money before %d, after %d\n", before, after)
	if before != after {
		return errors.New("money was lost or made")
	}
	return rows.Err()
}
