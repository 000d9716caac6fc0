package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/postrider/postrider/partition"
)

// ErrConfig is wrapped by every complaint about a configuration.
var ErrConfig = errors.New("chaos configuration")

// CrewConfig has the settings of a Crew.
type CrewConfig struct {
	// Program is the path of postrider. Defaults to this program.
	Program string
	// Arguments start one worker: "run" and its flags, the servers among them, --json left out. Required.
	Arguments []string
	// Environment is added to this process's, without its POSTRIDER_ variables: settings are Arguments, or stand here, like the servers'
	// addresses, which hold passwords.
	Environment []string
	// Workers is their number, 2 to 64: another must take over from a struck one. Defaults to 3.
	Workers int
	// Log receives the workers' logs, each line with its worker in front. Defaults to nobody.
	Log io.Writer
}

// Crew runs the workers, numbered from 1. A killed worker is replaced under its number. Its methods may be called from any goroutine.
type Crew struct {
	config CrewConfig
	ended  chan error // a worker ended by itself

	mu      sync.Mutex
	workers []*process // by number, from 0; nil before the first start
	frozen  []bool
}

// NewCrew starts nothing yet.
func NewCrew(config CrewConfig) (*Crew, error) {
	config.Workers = cmp.Or(config.Workers, 3)
	switch {
	case len(config.Arguments) == 0:
		return nil, fmt.Errorf("%w: Arguments are missing", ErrConfig)
	case config.Workers < 2 || config.Workers > 64:
		return nil, fmt.Errorf("%w: Workers must lie between 2 and 64, got %d", ErrConfig, config.Workers)
	}
	if config.Program == "" {
		program, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("the program's path: %w", err)
		}
		config.Program = program
	}
	return &Crew{
		config: config, ended: make(chan error, 1),
		workers: make([]*process, config.Workers), frozen: make([]bool, config.Workers),
	}, nil
}

// Start starts the workers and returns a second after each has named itself. The first is alone for so long: it makes the stream. A worker
// that ends by itself meanwhile is an error with its last lines.
func (c *Crew) Start(ctx context.Context) error {
	if err := c.Replace(ctx, 1); err != nil {
		return err
	}
	for n := 2; n <= len(c.workers); n++ {
		if err := c.launch(n); err != nil {
			return err
		}
	}
	for n := 2; n <= len(c.workers); n++ {
		if err := c.awaitKnown(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// Replace starts worker n anew and returns when it has named itself. The process before it must have ended.
func (c *Crew) Replace(ctx context.Context, n int) error {
	if err := c.launch(n); err != nil {
		return err
	}
	return c.awaitKnown(ctx, n)
}

func (c *Crew) launch(n int) error {
	name := workerName(n)
	cmd := exec.Command(c.config.Program, append(slices.Clip(c.config.Arguments), "--json")...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "POSTRIDER_") })
	cmd.Env = append(cmd.Env, c.config.Environment...)
	p, err := launch(cmd, c.config.Log, name)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.workers[n-1], c.frozen[n-1] = p, false
	c.mu.Unlock()
	go func() {
		<-p.ended
		if err := p.complaint(name); err != nil {
			select {
			case c.ended <- err:
			default: // one is enough
			}
		}
	}()
	return nil
}

func (c *Crew) awaitKnown(ctx context.Context, n int) error {
	p := c.process(n)
	select {
	case <-p.known:
		return nil
	case <-p.ended:
		return cmp.Or(p.complaint(workerName(n)), fmt.Errorf("%s has ended", workerName(n)))
	case <-ctx.Done():
		return fmt.Errorf("wait for %s: %w", workerName(n), context.Cause(ctx))
	}
}

// Kill ends worker n with SIGKILL and waits until it is gone.
func (c *Crew) Kill(ctx context.Context, n int) error {
	p := c.process(n)
	if err := p.ask(os.Kill); err != nil {
		return fmt.Errorf("kill %s: %w", workerName(n), err)
	}
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the end of %s: %w", workerName(n), context.Cause(ctx))
	}
}

// Freeze stops worker n with SIGSTOP, in the middle of its work.
func (c *Crew) Freeze(n int) error { return c.suspend(n, true, freeze) }

// Wake lets worker n go on where it was frozen.
func (c *Crew) Wake(n int) error { return c.suspend(n, false, wake) }

func (c *Crew) suspend(n int, frozen bool, send func(*os.Process) error) error {
	if err := send(c.process(n).cmd.Process); err != nil {
		return fmt.Errorf("freeze or wake %s: %w", workerName(n), err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen[n-1] = frozen
	return nil
}

// Stop ends all workers in good order, and with SIGKILL when ctx ends first. Stopping twice is harmless.
func (c *Crew) Stop(ctx context.Context) error {
	c.mu.Lock()
	workers := slices.Clone(c.workers)
	c.mu.Unlock()
	for _, p := range workers {
		if p != nil {
			_ = p.ask(syscall.SIGTERM) // it may have ended
			_ = wake(p.cmd.Process)
		}
	}
	var errs []error
	for i, p := range workers {
		if p == nil {
			continue
		}
		select {
		case <-p.ended:
		case <-ctx.Done():
			errs = append(errs, fmt.Errorf("%s did not end in good order: %w", workerName(i+1), context.Cause(ctx)))
			_ = p.cmd.Process.Kill()
			<-p.ended
		}
	}
	return errors.Join(errs...)
}

// Member is the state of one worker.
type Member struct {
	// Number is from 1; it stays when the worker is replaced.
	Number int
	// ID is the worker's in the tables; nil until it is known.
	ID  partition.WorkerID
	PID int
	// Running reports whether its process has not ended, Frozen whether it is stopped all the same.
	Running, Frozen bool
	// Partitions is the number of its leases; see State.
	Partitions int
}

// Members returns the workers by their numbers.
func (c *Crew) Members() []Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	members := make([]Member, 0, len(c.workers))
	for i, p := range c.workers {
		m := Member{Number: i + 1, Frozen: c.frozen[i]}
		if p != nil {
			m.ID, m.PID, m.Running = p.worker(), p.cmd.Process.Pid, !isClosed(p.ended)
		}
		members = append(members, m)
	}
	return members
}

func (c *Crew) process(n int) *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.workers[n-1]
}

func workerName(n int) string { return fmt.Sprintf("worker %d", n) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
