package localpg

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// outputDelay bounds the wait for children that keep the output pipe open after the program has ended.
const outputDelay = 30 * time.Second

// process is one running program. done closes when it and everything that inherited its output ended:
// for the postmaster this includes its backends, also when it was killed.
type process struct {
	os   *os.Process
	tail *logTail
	done chan struct{}
	err  error // How it ended; read it after done.

	planned atomic.Bool // Set before this package ends it.
}

// account is the user that the server runs as; nil means the user of this process.
type account struct {
	uid, gid uint32
}

// launch starts the program on a thread of its own and keeps that thread until the program has ended: the kernel ties the death signal to the
// thread that forked, not to the process.
func launch(cmd *exec.Cmd, as *account, logger *slog.Logger, environment ...string) (*process, error) {
	p := &process{tail: &logTail{logger: logger}, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.tail, p.tail
	cmd.Env = append(serverEnvironment(), environment...)
	cmd.WaitDelay = outputDelay
	if err := prepareChild(cmd, as); err != nil {
		return nil, err
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		p.os = cmd.Process
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("localpg: start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// ended reports whether the process is gone, without waiting.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// wait blocks until the process is gone or the context ends.
func (p *process) wait(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// serverEnvironment returns this process's environment without variables that change the server: those of libpq (PGDATA, PGPORT, …) and the
// language of its messages, which this package reads.
func serverEnvironment() []string {
	kept := slices.DeleteFunc(os.Environ(), func(entry string) bool {
		return strings.HasPrefix(entry, "PG") || strings.HasPrefix(entry, "LC_") || strings.HasPrefix(entry, "LANG")
	})
	return append(kept, "LC_ALL=C")
}
