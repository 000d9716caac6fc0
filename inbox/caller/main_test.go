package caller_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/inbox/caller"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

const (
	// databaseVariable and receiverVariable make a process a caller, which tests kill.
	databaseVariable = "POSTRIDER_TEST_CALLER_DATABASE"
	receiverVariable = "POSTRIDER_TEST_CALLER_RECEIVER"
	sender           = "shop"
)

// TestMain runs the tests, or is one of the callers that they start as processes of their own.
func TestMain(m *testing.M) {
	if address := os.Getenv(databaseVariable); address != "" {
		if err := callerProcess(context.Background(), address); err != nil {
			fmt.Fprintln(os.Stderr, "caller:", err)
		}
		os.Exit(1) // nobody asks it to end
	}
	pgtest.Main(m)
}

func callerProcess(ctx context.Context, address string) error {
	pool, err := pgxpool.New(ctx, address)
	if err != nil {
		return err
	}
	defer pool.Close()
	c, err := newCaller(pool, os.Getenv(receiverVariable))
	if err != nil {
		return err
	}
	return c.Run(ctx)
}

func newCaller(db *pgxpool.Pool, url string) (*caller.Caller, error) {
	return caller.New(db, remote{url}, keep, caller.Config{Name: sender, Interval: 10 * time.Millisecond})
}

// errAgain is an answer that cannot be taken in at first.
var errAgain = errors.New("not now")

// keep is an Answered whose effect is a row. While gate's lock is held it stands still.
func keep(ctx context.Context, tx pgx.Tx, request, result []byte, no error) error {
	text := string(result)
	if no != nil {
		text = "no: " + no.Error()
	}
	_, err := tx.Exec(ctx, `INSERT INTO answers (request, answer) VALUES ($1, $2)`, string(request), text)
	if err != nil {
		return err
	}
	var again bool // until so many were refused: a sequence outlives what is rolled back
	if err := tx.QueryRow(ctx, `SELECT nextval('moods') <= refusals FROM moody`).Scan(&again); err != nil || again {
		return errors.Join(err, errAgain)
	}
	_, err = tx.Exec(ctx, `SELECT FROM gate FOR SHARE`)
	return err
}

// remote is the receiver as the sender reaches it, over HTTP.
type remote struct{ url string }

func (r remote) ask(ctx context.Context, path string, call inbox.Call, request []byte) (status int, body []byte, err error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+path, bytes.NewReader(request))
	if err != nil {
		return 0, nil, err
	}
	q.Header.Set("Call-Sender", call.Sender)
	q.Header.Set("Call-Generation", strconv.Itoa(call.Generation))
	q.Header.Set("Call-Id", strconv.FormatInt(call.ID, 10))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(q)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	body, err = io.ReadAll(answer.Body)
	return answer.StatusCode, body, err
}

// Call implements caller.Receiver.
func (r remote) Call(ctx context.Context, call inbox.Call, request []byte) ([]byte, error) {
	status, body, err := r.ask(ctx, "/call", call, request)
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusOK:
		return body, nil
	case status == http.StatusUnprocessableEntity:
		return nil, inbox.Final(errors.New(string(body)))
	case status == http.StatusConflict:
		return nil, caller.ErrOutdated
	}
	return nil, fmt.Errorf("status %d: %s", status, body)
}

// Last implements caller.Receiver.
func (r remote) Last(ctx context.Context, sender string) (last inbox.Call, err error) {
	status, body, err := r.ask(ctx, "/last", inbox.Call{Sender: sender}, nil)
	if err != nil {
		return last, err
	}
	if status != http.StatusOK {
		return last, fmt.Errorf("status %d: %s", status, body)
	}
	return last, json.Unmarshal(body, &last)
}

// world is a sender's database, a receiver with its own, and the way between them.
type world struct {
	arrives func(inbox.Call) // set before anybody calls; asked first, many at a time
	db      *pgxpool.Pool
	url     string // of the sender's database
	far     *pgxpool.Pool
	box     *inbox.Inbox
	http    *httptest.Server

	ended chan struct{} // has a token for each run that ended

	mu sync.Mutex
	// before and after are asked about each call, before it is carried out and before it is answered; false: the caller gets no answer.
	before, after func(inbox.Call) bool
	calls         int
}

func newWorld(t *testing.T) *world { t.Helper(); return newWorldAt(t, pgtest.URL(t)) }

func newWorldAt(t *testing.T, url string) *world {
	t.Helper()
	w := &world{url: url, ended: make(chan struct{}, 10)}
	w.db, w.far = pgtest.Pool(t, w.url), pgtest.Pool(t, pgtest.URL(t))
	for _, pool := range []*pgxpool.Pool{w.db, w.far} {
		if err := inbox.Migrate(t.Context(), pool, "public"); err != nil {
			t.Fatal(err)
		}
	}
	do(t, w.db, `CREATE TABLE answers (n bigint GENERATED ALWAYS AS IDENTITY, request text, answer text)`)
	do(t, w.db, `CREATE TABLE gate (closed boolean); INSERT INTO gate VALUES (true); CREATE SEQUENCE moods; CREATE TABLE moody (refusals int); INSERT INTO moody VALUES (0)`)
	do(t, w.far, `CREATE TABLE effects (n bigint GENERATED ALWAYS AS IDENTITY, request text)`)
	var err error
	if w.box, err = inbox.New(w.far, inbox.Config{Name: "calls"}); err != nil {
		t.Fatal(err)
	}
	w.http = httptest.NewServer(w)
	t.Cleanup(w.http.Close)
	return w
}

// asks is what the hooks say. They are asked one at a time.
func (w *world) asks(call inbox.Call, before bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	hook := w.after
	if before {
		w.calls++
		hook = w.before
	}
	return hook == nil || hook(call)
}

// ServeHTTP implements http.Handler.
func (w *world) ServeHTTP(answer http.ResponseWriter, r *http.Request) {
	call := inbox.Call{Sender: r.Header.Get("Call-Sender")}
	call.Generation, _ = strconv.Atoi(r.Header.Get("Call-Generation")) // what is wrong is refused by the inbox
	call.ID, _ = strconv.ParseInt(r.Header.Get("Call-Id"), 10, 64)
	request, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	ctx := context.WithoutCancel(r.Context())
	if r.URL.Path == "/last" {
		last, err := w.box.LastCall(ctx, call.Sender)
		if err != nil {
			http.Error(answer, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_ = json.NewEncoder(answer).Encode(last) // who hangs up asks again
		return
	}
	if w.arrives != nil {
		w.arrives(call)
	}
	if !w.asks(call, true) {
		http.Error(answer, "lost before", http.StatusBadGateway)
		return
	}
	o, err := w.box.Call(ctx, call, func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
		if string(request) == "no" {
			return nil, inbox.Final(errors.New("we do not"))
		}
		_, err := tx.Exec(ctx, `INSERT INTO effects (request) VALUES ($1)`, string(request))
		return []byte("did " + string(request)), err
	})
	switch {
	case !w.asks(call, false):
		http.Error(answer, "lost behind", http.StatusBadGateway)
	case err != nil:
		http.Error(answer, err.Error(), http.StatusServiceUnavailable)
	case o.Status == inbox.Outdated:
		answer.WriteHeader(http.StatusConflict)
	case o.Err != nil:
		answer.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(answer, o.Err)
	default:
		_, _ = answer.Write(o.Result) // as above
	}
}

// hook sets what is asked before calls are carried out and before they are answered.
func (w *world) hook(before, after func(inbox.Call) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before, w.after = before, after
}

func do(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// texts are a column in the order of its rows.
func texts(t *testing.T, pool *pgxpool.Pool, sql string) []string {
	t.Helper()
	rows, _ := pool.Query(t.Context(), sql)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return list
}

func (w *world) caller(t *testing.T) *caller.Caller {
	t.Helper()
	c, err := newCaller(w.db, w.http.URL)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// queue commits calls, one transaction each.
func (w *world) queue(t *testing.T, requests ...string) {
	t.Helper()
	c := w.caller(t)
	for _, request := range requests {
		if err := pgx.BeginFunc(t.Context(), w.db, func(tx pgx.Tx) error { return c.Queue(t.Context(), tx, []byte(request)) }); err != nil {
			t.Fatal(err)
		}
	}
}

// run has a caller run until the function that it returns is called, or the test ends.
func (w *world) run(t *testing.T) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	c := w.caller(t)
	go func() {
		ended <- c.Run(ctx)
		w.ended <- struct{}{}
	}()
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { _ = stop() })
	return stop
}

// answered waits until no call waits, and returns what was answered, in order.
func (w *world) answered(t *testing.T) []string {
	t.Helper()
	clustertest.Until(t, "every call is answered", func(ctx context.Context) (done bool, err error) {
		err = w.db.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM inbox_calls)`).Scan(&done)
		return done, err
	}, func() string {
		return fmt.Sprint(texts(t, w.db, `SELECT coalesce(last_error, 'waits') FROM inbox_calls`))
	})
	return texts(t, w.db, `SELECT answer FROM answers ORDER BY n`)
}
