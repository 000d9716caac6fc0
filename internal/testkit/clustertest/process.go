package clustertest

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// DumpVariable set to 1 adds the goroutines of every running process to the output of a failed test.
const DumpVariable = "POSTRIDER_TEST_DUMP"

// logShown bounds the printed end of a log, in bytes.
const logShown = 64 << 10

// Process is the program under a test's control.
type Process struct {
	name  string
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process is gone and its output complete

	asked atomic.Bool // to end

	stdout, stderr output
}

// Launch starts the program with these arguments and settings, and nothing of the test's own configuration. It is
// killed when the test ends, and its output is printed if the test failed.
func Launch(t testing.TB, name string, environment []string, args ...string) *Process {
	t.Helper()
	return LaunchBinary(t, name, Binary(t), environment, args...)
}

// LaunchBinary is Launch of another build of the program.
func LaunchBinary(t testing.TB, name, binary string, environment []string, args ...string) *Process {
	t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Env = append(outerEnvironment(), environment...)
	return begin(t, name, cmd)
}

func begin(t testing.TB, name string, cmd *exec.Cmd) *Process {
	t.Helper()
	cmd.SysProcAttr = bound()
	p := &Process{name: name, cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.stdout, &p.stderr
	started := make(chan error, 1)
	go func() {
		// The thread that starts the child must not end before it; it ends with this goroutine.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the status is asked for later
		}
		close(p.ended)
	}()
	if err := <-started; err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	t.Cleanup(func() {
		if t.Failed() && os.Getenv(DumpVariable) == "1" {
			_ = cmd.Process.Signal(syscall.SIGQUIT) // Go programs print their goroutines and end
		} else {
			_ = cmd.Process.Kill() // it may have ended by itself
		}
		<-p.ended
		if strings.Contains(p.stderr.text(), "WARNING: DATA RACE") {
			t.Errorf("%s has a data race", name)
		}
		if t.Failed() {
			t.Logf("%s (pid %d, %s) wrote to stderr:\n%s", name, cmd.Process.Pid, cmd.ProcessState, last(p.stderr.text(), logShown))
		}
	})
	return p
}

// outerEnvironment returns this process's environment without the program's settings.
func outerEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return strings.HasPrefix(name, "POSTRIDER_") || strings.HasPrefix(name, "PG") || strings.HasPrefix(name, "OTEL_") ||
			name == "DATABASE_URL" || name == "NATS_URL"
	})
}

// PID returns the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stdout returns the output so far.
func (p *Process) Stdout() string { return p.stdout.text() }

// Stderr returns the log so far.
func (p *Process) Stderr() string { return p.stderr.text() }

// Signal sends a signal.
func (p *Process) Signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if signal != syscall.SIGSTOP && signal != syscall.SIGCONT {
		p.asked.Store(true)
	}
	if err := p.cmd.Process.Signal(signal); err != nil {
		t.Fatalf("send %v to %s: %v", signal, p.name, err)
	}
}

// Ended is closed when the process is gone.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Exit waits until the process is gone and returns its status; -1 when a signal ended it.
func (p *Process) Exit(t testing.TB) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*Patience)
	defer cancel()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-ctx.Done():
		t.Fatalf("%s did not end: %v", p.name, context.Cause(ctx))
		return 0
	}
}

// output is a process's output. Its zero value is ready.
type output struct {
	mu      sync.Mutex
	content bytes.Buffer
	changed chan struct{} // closed by the next write
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed != nil {
		close(o.changed)
		o.changed = nil
	}
	return o.content.Write(b)
}

func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.content.String()
}

// next returns the output from offset on, and a channel that is closed when there is more.
func (o *output) next(offset int) (string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed == nil {
		o.changed = make(chan struct{})
	}
	return string(o.content.Bytes()[offset:]), o.changed
}

// contains waits until the output contains the text.
func (p *Process) contains(t testing.TB, o *output, text string, patience time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		all, changed := o.next(0)
		if strings.Contains(all, text) {
			return
		}
		select {
		case <-changed:
		case <-p.ended:
			if strings.Contains(o.text(), text) {
				return
			}
			t.Fatalf("%s ended before it wrote %q", p.name, text)
		case <-ctx.Done():
			t.Fatalf("%s did not write %q: %v", p.name, text, context.Cause(ctx))
		}
	}
}

// WaitLog waits until the log contains the text.
func (p *Process) WaitLog(t testing.TB, text string) {
	t.Helper()
	p.contains(t, &p.stderr, text, Patience)
}

func last(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return "… " + text[len(text)-most:]
}
