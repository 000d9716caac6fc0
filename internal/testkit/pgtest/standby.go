package pgtest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/localpg"
)

// Standby is a copy of a server's files, like those of a standby that lags behind from now on.
type Standby struct {
	server *localpg.Server
	folder string
}

// NewStandby kills a server of Server's, copies it, and starts it again, with all commits until the kill.
func NewStandby(t testing.TB, server *localpg.Server) Standby {
	t.Helper()
	s := Standby{server, filepath.Join(filepath.Dir(server.DataDir()), "standby")}
	kill(t, server)
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", server.DataDir(), s.folder).CombinedOutput(); err != nil {
		t.Fatalf("pgtest: copy the data directory: %v: %s", err, out)
	}
	restart(t, server)
	return s
}

// Promote puts the copy in the place of the server, under its address, and makes it a primary with a timeline of its own.
func (s Standby) Promote(t testing.TB) {
	t.Helper()
	kill(t, s.server)
	err := os.RemoveAll(s.server.DataDir())
	if err == nil {
		err = os.Rename(s.folder, s.server.DataDir())
	}
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	PromoteKilled(t, s.server)
}

// PromoteKilled starts a killed server again as a standby, and promotes it.
func PromoteKilled(t testing.TB, server *localpg.Server) {
	t.Helper()
	err := os.WriteFile(filepath.Join(server.DataDir(), "standby.signal"), nil, 0o644) //nolint:gosec // the server runs as another user
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	restart(t, server)
	Promote(t, server.URL())
}

// Promote makes a standby a primary, and returns when it is one.
func Promote(t testing.TB, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	// The end of the recovery may cancel the statement that asks for it. Asked again, a primary says that it is one.
	var answer *pgconn.PgError
	err := execute(ctx, address, `SELECT pg_promote()`)
	for errors.As(err, &answer) && answer.Code == "40001" {
		err = execute(ctx, address, `SELECT pg_promote()`)
	}
	if errors.As(err, &answer) && answer.Code == "55000" {
		err = nil
	}
	if err != nil {
		t.Fatalf("pgtest: promote: %v", err)
	}
}

func kill(t testing.TB, server *localpg.Server) {
	t.Helper()
	if err := server.Kill(t.Context()); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
}

func restart(t testing.TB, server *localpg.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	if err := server.Restart(ctx); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
}
