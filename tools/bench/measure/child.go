package measure

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// PartCommand is the first argument of a program that is to run a part: RunPart with the second.
const PartCommand = "bench-part"

// stopPatience bounds a child's orderly end.
const stopPatience = 30 * time.Second

// child is a process of the program under test. A part talks JSON lines over its standard input and output.
type child struct {
	name  string
	cmd   *exec.Cmd
	input io.WriteCloser
	lines *bufio.Reader
	pipe  *os.File // the source of its lines; nil: none is read
	log   *tail
	done  chan struct{}
	err   error // its error; read it after done
}

// tail keeps the last bytes written to it.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

const tailSize = 4000

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if len(t.kept) > 2*tailSize {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-tailSize:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.kept[max(0, len(t.kept)-tailSize):]))
}

// launch starts the program. With talk its standard output is read by receive.
func (b *Bench) launch(program, name string, environment []string, talk bool, args ...string) (*child, error) {
	c := &child{name: name, cmd: exec.Command(program, args...), log: &tail{}, done: make(chan struct{})}
	c.cmd.Env = append(neutralEnvironment(), environment...)
	c.cmd.Stderr = c.log
	c.cmd.SysProcAttr = childAttributes()
	var err error
	if c.input, err = c.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	var output *os.File
	if talk {
		read, write, err := os.Pipe()
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", name, err)
		}
		c.cmd.Stdout, output, c.lines, c.pipe = write, write, bufio.NewReader(read), read
	}
	started := make(chan error)
	go c.run(started)
	err = <-started
	if output != nil {
		_ = output.Close() // the child has its own
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return c, nil
}

// run starts the child and waits for it, on a thread that lives as long: the kernel ends the child with it.
func (c *child) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := c.cmd.Start()
	started <- err
	if err == nil {
		c.err = c.cmd.Wait()
		close(c.done)
	}
}

// neutralEnvironment is this process's without settings of the program, of PostgreSQL's clients or of traces.
func neutralEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(entry string) bool {
		for _, prefix := range []string{"POSTRIDER_", "PG", "OTEL_", "DATABASE_URL=", "NATS_URL="} {
			if strings.HasPrefix(entry, prefix) {
				return true
			}
		}
		return false
	})
}

// part starts a part and sends it its settings.
func (b *Bench) part(name string, settings any) (*child, error) {
	c, err := b.launch(b.cfg.Parts, name, nil, true, PartCommand, name)
	if err != nil {
		return nil, err
	}
	if err := c.send(settings); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

func (c *child) send(value any) error {
	if err := json.NewEncoder(c.input).Encode(value); err != nil {
		return fmt.Errorf("tell %s: %w: %s", c.name, err, c.log)
	}
	return nil
}

// receive waits for the part's next line.
func (c *child) receive(ctx context.Context, value any) error {
	read := make(chan error, 1)
	go func() {
		text, err := c.lines.ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(text, value)
		}
		read <- err
	}()
	select {
	case err := <-read:
		if err != nil {
			return fmt.Errorf("hear from %s: %w: %s", c.name, err, c.log)
		}
		return nil
	case <-ctx.Done():
		_ = c.input.Close() // the child ends in order, and with it the reading
		return fmt.Errorf("hear from %s: %w: %s", c.name, context.Cause(ctx), c.log)
	}
}

// ended returns the error of the child's end, or nil while it runs.
func (c *child) ended() error {
	select {
	case <-c.done:
		return fmt.Errorf("%s ended by itself: %w: %s", c.name, errors.Join(c.err, errEnded), c.log)
	default:
		return nil
	}
}

var errEnded = errors.New("it was not told to")

// stop ends the child in order, and by force when that takes too long. It does so even after an interruption: a broker
// must remove its folder.
func (c *child) stop() error {
	_ = c.input.Close()                       // a part waits for this
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // a worker waits for this; it may have ended
	timer := time.NewTimer(stopPatience)
	defer timer.Stop()
	if c.pipe != nil {
		defer c.pipe.Close() //nolint:errcheck // it was only read
	}
	select {
	case <-c.done:
	case <-timer.C:
		_ = c.cmd.Process.Kill()
		<-c.done
		return fmt.Errorf("%s did not end within %s: %s", c.name, stopPatience, c.log)
	}
	return nil
}
