package localpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/loopback"
)

// ErrStopped is returned by Restart after Stop.
var ErrStopped = errors.New("localpg: server is stopped for good")

const (
	superuser     = "postgres"
	listenAddress = loopback.Host

	// portAttempts bounds the replacements of a port that was taken in the meantime.
	portAttempts = 5
	// readyInterval is the time between two connection attempts while the server starts.
	readyInterval = 20 * time.Millisecond
	// immediateDelay bounds an immediate shutdown before the server is killed; PostgreSQL itself kills backends that do not react after 5 s.
	immediateDelay = 10 * time.Second
)

// ErrPortTaken is the one start failure that another port cures.
var ErrPortTaken = errors.New("localpg: port is taken")

// Server is a running private PostgreSQL. Its methods may be called from any goroutine, one takes effect at a time.
type Server struct {
	config  Config
	cluster *cluster
	port    int

	mu      sync.Mutex
	process *process
	stopped bool
}

// Start creates the cluster if need be, starts the server and returns when it accepts connections. Creating takes about one second. Without a
// deadline in ctx it waits as long as crash recovery takes. It returns ErrNoBinaries, ErrForeignDataDir, ErrInvalidConfig, or the server's
// error.
func Start(ctx context.Context, config Config) (*Server, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config.Logger = cmp.Or(config.Logger, slog.New(slog.DiscardHandler))
	c, err := openCluster(ctx, config)
	if err != nil {
		return nil, err
	}
	s := &Server{config: config, cluster: c}
	for range portAttempts {
		if s.port, err = choosePort(ctx, config.Port); err != nil {
			break
		}
		if err = s.startLocked(ctx); config.Port != 0 || !errors.Is(err, ErrPortTaken) {
			break
		}
	}
	if err != nil {
		if c.temp != nil {
			err = errors.Join(err, c.temp.remove())
		}
		return nil, err
	}
	return s, nil
}

// choosePort returns the wanted port if nobody listens there: a refused password alone would show that the server is another's.
func choosePort(ctx context.Context, wanted int) (int, error) {
	if wanted == 0 {
		return loopback.FreePort(ctx)
	}
	if err := loopback.Probe(ctx, wanted); err != nil {
		return 0, fmt.Errorf("%w: %d: %w", ErrPortTaken, wanted, err)
	}
	return wanted, nil
}

// URL returns the address of database "postgres" as superuser. It holds the password.
func (s *Server) URL() string {
	address := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, s.cluster.password),
		Host:     net.JoinHostPort(listenAddress, strconv.Itoa(s.port)),
		Path:     "/postgres",
		RawQuery: "sslmode=disable",
	}
	return address.String()
}

// DataDir returns the data directory in use.
func (s *Server) DataDir() string { return s.cluster.dir }

// Done closes when the server process that runs now has ended, planned or not. After Restart it is another channel.
func (s *Server) Done() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.done
}

// Stop ends the server for good: open transactions are rolled back and everything is written out (fast
// shutdown). When ctx ends first the server is shut down immediately instead, so that no process is left
// in any case, and the error says so. A temporary data directory is removed. Stopping twice is harmless.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil
	}
	s.stopped = true
	err := s.endLocked(ctx, syscall.SIGINT)
	if s.cluster.temp != nil {
		err = errors.Join(err, s.cluster.temp.remove())
	}
	return err
}

// StopImmediate ends the server without a checkpoint, as if the power had failed after the last commit
// that was flushed. The data directory stays; Restart recovers it.
func (s *Server) StopImmediate(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endLocked(ctx, syscall.SIGQUIT)
}

// Kill sends SIGKILL to the server and all its backends and waits until they are gone. The data directory stays; Restart recovers it.
func (s *Server) Kill(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.killLocked(ctx)
}

// Restart starts the server again under the same URL, after a fast shutdown if it still runs. It returns ErrStopped after Stop.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return ErrStopped
	}
	if err := s.endLocked(ctx, syscall.SIGINT); err != nil {
		return err
	}
	return s.startLocked(ctx)
}

// startLocked launches the server and waits until it accepts connections. On failure nothing runs.
func (s *Server) startLocked(ctx context.Context) error {
	cmd := exec.Command(s.cluster.programs.path("postgres"), s.config.arguments(s.cluster.dir, s.port)...)
	cmd.Dir = s.cluster.dir
	started, err := launch(cmd, s.cluster.runAs, s.config.Logger, s.config.Environment...)
	if err != nil {
		return err
	}
	s.process = started
	if err := s.waitReady(ctx, started); err != nil {
		return errors.Join(err, s.killLocked(context.WithoutCancel(ctx)))
	}
	s.config.Logger.Info("PostgreSQL is running", "port", s.port, "data_dir", s.cluster.dir,
		"major", s.cluster.programs.major, "pid", started.os.Pid)
	go s.reportUnplannedEnd(started)
	return nil
}

// waitReady connects until the server answers, and gives up when it ended or refused for good.
func (s *Server) waitReady(ctx context.Context, started *process) error {
	ticker := time.NewTicker(readyInterval)
	defer ticker.Stop()
	for {
		var err error
		if s.listens(started) { // else another server may answer at its port, which it cannot have
			var conn *pgx.Conn
			if conn, err = pgx.Connect(ctx, s.URL()); err == nil {
				return conn.Close(ctx)
			}
		}
		if refused, ok := errors.AsType[*pgconn.PgError](err); ok && strings.HasPrefix(refused.Code, "28") {
			return fmt.Errorf("localpg: the server refuses its own password: %w", err)
		}
		select {
		case <-started.done:
			if strings.Contains(started.tail.String(), "Address already in use") {
				return fmt.Errorf("%w: %d", ErrPortTaken, s.port)
			}
			return fmt.Errorf("localpg: the server ended while starting: %w:\n%s", started.err, started.tail)
		case <-ctx.Done():
			return fmt.Errorf("localpg: wait for the server to accept connections: %w:\n%s", ctx.Err(), started.tail)
		case <-ticker.C:
		}
	}
}

// listens reports whether the process has its port and accepts connections, as it writes into its data directory.
func (s *Server) listens(started *process) bool {
	text, err := os.ReadFile(filepath.Join(s.cluster.dir, "postmaster.pid"))
	lines := strings.Split(string(text), "\n")
	const pid, status = 0, 7
	return err == nil && len(lines) > status && lines[pid] == strconv.Itoa(started.os.Pid) && strings.TrimSpace(lines[status]) == "ready"
}

// endLocked asks the server to shut down, waits, and becomes harsher when ctx ends first.
func (s *Server) endLocked(ctx context.Context, signal syscall.Signal) error {
	current := s.process
	if current.ended() {
		return nil
	}
	current.planned.Store(true)
	if err := current.os.Signal(signal); err != nil {
		return errors.Join(fmt.Errorf("localpg: signal the server: %w", err), s.killLocked(ctx))
	}
	cause := current.wait(ctx)
	if cause == nil {
		return nil
	}
	cause = fmt.Errorf("localpg: shut down: %w: the server was ended without a checkpoint", cause)
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), immediateDelay)
	defer cancel()
	if current.os.Signal(syscall.SIGQUIT) == nil && current.wait(patient) == nil {
		return cause
	}
	return errors.Join(cause, s.killLocked(context.WithoutCancel(ctx)))
}

// killLocked ends everything at once. The wait is bounded by outputDelay.
func (s *Server) killLocked(ctx context.Context) error {
	current := s.process
	if current.ended() {
		return nil
	}
	current.planned.Store(true)
	if err := killTree(current.os); err != nil && !current.ended() {
		return fmt.Errorf("localpg: kill the server: %w", err)
	}
	if err := current.wait(ctx); err != nil {
		return fmt.Errorf("localpg: wait for the killed server: %w", err)
	}
	return nil
}

// reportUnplannedEnd logs the last words of a server that ended unasked.
func (s *Server) reportUnplannedEnd(current *process) {
	<-current.done
	if !current.planned.Load() {
		s.config.Logger.Error("PostgreSQL ended by itself", "error", current.err, "last_lines", current.tail.String())
	}
}
