package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"testing"
	"time"
)

// patience bounds every wait that is not itself measured.
const patience = 20 * time.Second

// process is the program, running.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}

	mu  sync.Mutex
	log bytes.Buffer
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// launch starts the program; address is what it says that it listens on, when wait is set.
func launch(t *testing.T, environment []string, wait bool, args ...string) (p *process, address string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(append(os.Environ(), programVariable+"=1"), environment...)
	p = &process{cmd: cmd, ended: make(chan struct{})}
	cmd.Stderr = p
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 1)
	go func() {
		defer close(p.ended)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			select {
			case lines <- scanner.Text():
			default:
			}
		}
		_ = cmd.Wait() // killed, as a rule
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%v wrote:\n%s", args, p.text())
		}
	})
	if !wait {
		return p, ""
	}
	select {
	case line := <-lines:
		return p, regexp.MustCompile(`http://\S+`).FindString(line)
	case <-p.ended:
		t.Fatalf("%v ended:\n%s", args, p.text())
	case <-time.After(patience):
		t.Fatalf("%v does not listen:\n%s", args, p.text())
	}
	return nil, ""
}

// kill ends the process as a crash does, and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may be gone
	<-p.ended
}

// await waits until somebody says so.
func await(t *testing.T, said <-chan struct{}) {
	t.Helper()
	select {
	case <-said:
	case <-time.After(patience):
		t.Fatal("what should happen did not")
	}
}

// let says so to who waits for it.
func let(t *testing.T, say chan<- struct{}) {
	t.Helper()
	select {
	case say <- struct{}{}:
	case <-time.After(patience):
		t.Fatal("nobody waits")
	}
}
