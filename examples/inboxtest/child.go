package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// request is a line for the consumer.
type request struct {
	ID             int64             `json:"id"`
	Retry          bool              `json:"retry,omitempty"`
	Subject        string            `json:"subject,omitempty"`
	StreamSequence uint64            `json:"stream_sequence,omitempty"`
	Headers        map[string]string `json:"headers,omitempty"`
	Payload        []byte            `json:"payload,omitempty"`
}

// answer is a line of the consumer.
type answer struct {
	ID  int64 `json:"id"`
	Ack bool  `json:"ack"`
}

var (
	errPatience = fmt.Errorf("nothing came for %s", patience)
	errEnded    = errors.New("the consumer ended")
)

// child is a process of the consumer under test.
type child struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers chan answer // closed when its output has ended
	errors  lines
}

// lines keeps what a process wrote to standard error, and the first line of its output that is no answer.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String is the end of it.
func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	const most = 2000
	return string(l.text.Bytes()[max(0, l.text.Len()-most):])
}

// start starts the command as a consumer of this name.
func start(ctx context.Context, command []string, address, consumer string) (*child, error) {
	c := &child{cmd: exec.CommandContext(ctx, command[0], command[1:]...), answers: make(chan answer, 100)}
	c.cmd.Env = append(os.Environ(), "DATABASE_URL="+address, "INBOX_CONSUMER="+consumer)
	c.cmd.Stderr = &c.errors
	c.cmd.WaitDelay = time.Second
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the consumer: %w", err)
	}
	go func() {
		defer close(c.answers)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			var a answer
			if err := json.Unmarshal(scanner.Bytes(), &a); err != nil {
				fmt.Fprintf(&c.errors, "no answer: %s\n", scanner.Bytes())
				return
			}
			c.answers <- a
		}
	}()
	return c, nil
}

// send writes a line. That the process has ended shows when its answer is waited for.
func (c *child) send(r request) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, _ = c.in.Write(append(text, '\n'))
	return nil
}

// wait returns the answer to a request; errEnded when the process ended before.
func (c *child) wait(ctx context.Context, id int64) (ack bool, err error) {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-limit.C:
			return false, fmt.Errorf("no answer to request %d: %w\n%s", id, errPatience, &c.errors)
		case a, more := <-c.answers:
			switch {
			case !more:
				return false, fmt.Errorf("%w: %s", errEnded, &c.errors)
			case a.ID == id:
				return a.Ack, nil
			}
		}
	}
}

// kill ends the process at once, and returns which requests it has acknowledged that nobody waited for.
func (c *child) kill() (acked []int64) {
	_ = c.cmd.Process.Kill() // it may have ended
	for a := range c.answers {
		if a.Ack {
			acked = append(acked, a.ID)
		}
	}
	_ = c.cmd.Wait() // it was killed
	return acked
}

// end lets it finish: its input ends.
func (c *child) end() {
	_ = c.in.Close()
	limit := time.AfterFunc(patience, func() { _ = c.cmd.Process.Kill() })
	defer limit.Stop()
	for range c.answers { // what it still says changes nothing
		continue
	}
	_ = c.cmd.Wait()
}
