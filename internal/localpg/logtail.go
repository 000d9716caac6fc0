package localpg

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
)

// tailLines of the server's output are quoted by an error.
const tailLines = 30

// logTail takes a program's output, passes whole lines to the logger and remembers the last ones.
type logTail struct {
	logger *slog.Logger

	mu      sync.Mutex
	partial []byte
	lines   []string
}

// Write never fails: a lost log line must not stop the server.
func (l *logTail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.partial = append(l.partial, p...)
	for {
		end := bytes.IndexByte(l.partial, '\n')
		if end < 0 {
			return len(p), nil
		}
		l.addLocked(string(l.partial[:end]))
		l.partial = l.partial[end+1:]
	}
}

func (l *logTail) addLocked(line string) {
	if len(l.lines) == tailLines {
		l.lines = append(l.lines[:0], l.lines[1:]...)
	}
	l.lines = append(l.lines, line)
	l.logger.LogAttrs(context.Background(), slog.LevelDebug, "postgres", slog.String("line", line))
}

func (l *logTail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(strings.Join(l.lines, "\n") + "\n" + string(l.partial))
}
