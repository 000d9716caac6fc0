package chaos

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"

	"github.com/postrider/postrider/partition"
)

// lastLines of a log are kept for the case that a worker ends by itself.
const lastLines = 20

// process is one start of a worker.
type process struct {
	cmd   *exec.Cmd
	known chan struct{} // closed when the worker has named itself
	ended chan struct{} // closed when it is gone and its output read

	mu    sync.Mutex
	id    partition.WorkerID
	asked bool // to end
	lines []string
}

// launch starts the program on a thread of its own, which is kept until it has ended: the death signal is tied to that.
func launch(cmd *exec.Cmd, log io.Writer, name string) (*process, error) {
	cmd.SysProcAttr = apart()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, known: make(chan struct{}), ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		var reading sync.WaitGroup
		reading.Go(func() { p.readTicks(stdout) })
		reading.Go(func() { p.readLog(stderr, log, name) })
		reading.Wait()
		_ = cmd.Wait() // complaint names the state that it leaves
		close(p.ended)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// readTicks takes the worker's id from its first line; the others are only taken off the pipe.
func (p *process) readTicks(from io.Reader) {
	lines := bufio.NewReader(from)
	var tick struct {
		Worker partition.WorkerID `json:"worker_id"`
	}
	for tick.Worker == (partition.WorkerID{}) {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		_ = json.Unmarshal(line, &tick) // a line that is no tick names nobody
	}
	p.mu.Lock()
	p.id = tick.Worker
	p.mu.Unlock()
	close(p.known)
	_, _ = io.Copy(io.Discard, lines)
}

func (p *process) readLog(from io.Reader, log io.Writer, name string) {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		if log != nil {
			fmt.Fprintf(log, "%s: %s", name, line)
		}
		p.mu.Lock()
		p.lines = append(p.lines, line)
		p.lines = p.lines[max(0, len(p.lines)-lastLines):]
		p.mu.Unlock()
	}
}

// worker returns its id; nil until it is known.
func (p *process) worker() partition.WorkerID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.id
}

// ask marks that the end is wanted, and sends the signal.
func (p *process) ask(signal os.Signal) error {
	p.mu.Lock()
	p.asked = true
	p.mu.Unlock()
	return p.cmd.Process.Signal(signal)
}

// complaint returns the error of a process that ended by itself; nil if that was wanted.
func (p *process) complaint(name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked {
		return nil
	}
	return fmt.Errorf("%s ended by itself (%s):\n%s", name, p.cmd.ProcessState, strings.Join(p.lines, ""))
}
