package main

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/inbox"
)

//go:embed receiver.sql
var receiverTables string

const (
	largestArguments = 1 << 20   // bytes of a request
	largestResult    = 256 << 10 // bytes that a procedure may return; stored until the sender's next call
	procedureTimeout = 30 * time.Second
)

// procedure carries out a call through tx. A *refusal is its word to the sender; any other error means that it could
// not be carried out now.
type procedure func(ctx context.Context, tx pgx.Tx, arguments json.RawMessage) (any, error)

// refusal is a procedure's no: final, stored, and answered to every repeat.
type refusal struct{ Reason string }

func (r *refusal) Error() string { return r.Reason }

// stored is what the inbox keeps of the last call of a sender.
type stored struct {
	UUID   uuid.UUID       `json:"uuid"`
	Status int             `json:"status"`
	Body   json.RawMessage `json:"body"`
}

// receiver answers calls, each executed once.
type receiver struct {
	pool       *pgxpool.Pool
	box        *inbox.Inbox
	schema     string
	procedures map[string]procedure
	log        *slog.Logger
}

// newReceiver prepares the schema, which all of the pool's sessions must have first in their search path.
func newReceiver(ctx context.Context, pool *pgxpool.Pool, schema string, procedures map[string]procedure, log *slog.Logger) (*receiver, error) {
	if err := locked(ctx, pool, "CREATE SCHEMA IF NOT EXISTS "+pgx.Identifier{schema}.Sanitize()+";"+receiverTables); err != nil {
		return nil, err
	}
	if err := inbox.Migrate(ctx, pool, schema); err != nil {
		return nil, err
	}
	box, err := inbox.New(pool, inbox.Config{Name: "calls", Schema: schema, Logger: log, HandlerTimeout: procedureTimeout})
	if err != nil {
		return nil, err
	}
	return &receiver{pool: pool, box: box, schema: schema, procedures: procedures, log: log}, nil
}

// allow lets a sender in by its token.
func (s *receiver) allow(ctx context.Context, sender, token string) error {
	sum := sha256.Sum256([]byte(token))
	_, err := s.pool.Exec(ctx, `INSERT INTO remote_senders VALUES ($1, $2)
		ON CONFLICT (sender) DO UPDATE SET token_sha256 = excluded.token_sha256`, sender, sum[:])
	return err
}

// who is the sender that the token belongs to; "" if to none.
func (s *receiver) who(ctx context.Context, r *http.Request) (sender string, err error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || token == "" {
		return "", nil
	}
	sum := sha256.Sum256([]byte(token))
	err = s.pool.QueryRow(ctx, `SELECT sender FROM remote_senders WHERE token_sha256 = $1`, sum[:]).Scan(&sender)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return sender, err
}

// incoming is a request, checked.
type incoming struct {
	sender    string
	target    string
	id        int64
	uuid      uuid.UUID
	procedure string
	arguments []byte
}

// ServeHTTP implements http.Handler. It answers when what it says is durable, or was never done.
func (s *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.URL.Path != "/call" {
		http.Error(w, "calls are POSTed to /call", http.StatusNotFound)
		return
	}
	// A caller that hangs up does not stop a call half-way: it may ask again, and is told then.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), procedureTimeout)
	defer cancel()
	sender, err := s.who(ctx, r)
	switch {
	case err != nil:
		s.unavailable(w, "look up the sender", err)
		return
	case sender == "":
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "no sender has this token", http.StatusUnauthorized)
		return
	}
	c, err := read(w, r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest) // without the mark of an outdated id: retried, and visible at the sender
		return
	}
	c.sender = sender
	s.answer(ctx, w, c)
}

func read(w http.ResponseWriter, r *http.Request) (c incoming, err error) {
	if c.id, err = strconv.ParseInt(r.Header.Get(headerID), 10, 64); err != nil || c.id < 1 {
		return c, fmt.Errorf("%s must be a whole number of at least 1", headerID)
	}
	if c.uuid, err = uuid.Parse(r.Header.Get(headerUUID)); err != nil {
		return c, fmt.Errorf("%s must be a UUID", headerUUID)
	}
	// The name is part of a key of the inbox: a sender must not be able to make another one's.
	if c.target, c.procedure = r.Header.Get(headerTarget), r.Header.Get(headerProcedure); !targetName.MatchString(c.target) {
		return c, fmt.Errorf("%s must match %s", headerTarget, targetName)
	}
	if c.arguments, err = io.ReadAll(http.MaxBytesReader(w, r.Body, largestArguments)); err != nil {
		return c, fmt.Errorf("arguments: %w", err)
	}
	return c, nil
}

// answer has the call executed, unless it was, and answers with its result.
func (s *receiver) answer(ctx context.Context, w http.ResponseWriter, c incoming) {
	// A sender may know this receiver under several names; it counts for each by itself.
	outcome, err := s.box.Call(ctx, inbox.Call{Sender: c.sender + "/" + c.target, ID: c.id},
		func(ctx context.Context, tx pgx.Tx) ([]byte, error) { return s.execute(ctx, tx, c) })
	if err != nil {
		s.unavailable(w, "execute", err)
		return
	}
	var last stored
	switch outcome.Status {
	case inbox.Outdated:
		s.outdated(w, c, fmt.Sprintf("call %d of %q is at most the last one, %d", c.id, c.sender, outcome.Last))
		return
	case inbox.Applied, inbox.Repeat:
		err = json.Unmarshal(outcome.Result, &last)
	default:
		err = fmt.Errorf("unexpected outcome %s: %w", outcome.Status, outcome.Err)
	}
	switch {
	case err != nil:
		s.unavailable(w, "read the stored result", err)
	case last.UUID != c.uuid:
		// The sender's database was restored and gives its ids away again.
		s.outdated(w, c, fmt.Sprintf("call %d of %q was another one, %s", c.id, c.sender, last.UUID))
	default:
		w.Header().Set(headerID, strconv.FormatInt(c.id, 10))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(last.Status)
		_, _ = w.Write(last.Body) // a caller that is gone asks again
	}
}

// execute runs the procedure inside the inbox's transaction. A refusal undoes what the procedure did and is a result.
func (s *receiver) execute(ctx context.Context, tx pgx.Tx, c incoming) ([]byte, error) {
	// The answer must not promise more than the disk holds, whatever the database's default is.
	if _, err := tx.Exec(ctx, `SET LOCAL synchronous_commit = on`); err != nil {
		return nil, err
	}
	run, ok := s.procedures[c.procedure]
	if !ok {
		return seal(c.uuid, http.StatusUnprocessableEntity, map[string]string{"error": "there is no procedure " + strconv.Quote(c.procedure)})
	}
	inner, err := tx.Begin(ctx) // a savepoint
	if err != nil {
		return nil, err
	}
	value, err := run(ctx, inner, c.arguments)
	var no *refusal
	if err != nil && !errors.As(err, &no) {
		return nil, err
	}
	if no == nil {
		sealed, err := seal(c.uuid, http.StatusOK, value)
		if err == nil {
			return sealed, inner.Commit(ctx)
		}
		no = &refusal{Reason: err.Error()} // it would be the same next time
	}
	if err := inner.Rollback(ctx); err != nil {
		return nil, err
	}
	return seal(c.uuid, http.StatusUnprocessableEntity, map[string]string{"error": storable(no.Reason)})
}

func seal(id uuid.UUID, status int, value any) ([]byte, error) {
	body, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("result of the procedure: %w", err)
	}
	if len(body) > largestResult {
		return nil, fmt.Errorf("the result of the procedure has %d bytes, at most %d fit", len(body), largestResult)
	}
	return json.Marshal(stored{UUID: id, Status: status, Body: body})
}

func (s *receiver) outdated(w http.ResponseWriter, c incoming, why string) {
	s.log.Warn("outdated call refused", "sender", c.sender, "call_id", c.id, "reason", why)
	w.Header().Set(headerID, strconv.FormatInt(c.id, 10))
	w.Header().Set(headerOutdated, "true")
	http.Error(w, why, http.StatusBadRequest)
}

// unavailable says that nothing was decided; the caller comes again.
func (s *receiver) unavailable(w http.ResponseWriter, what string, err error) {
	s.log.Warn("call not executed", "step", what, "error", err)
	http.Error(w, "not now", http.StatusServiceUnavailable) // the reason is for the log alone
}
