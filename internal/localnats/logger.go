package localnats

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// ErrPortTaken is the one start failure that another port cures.
var ErrPortTaken = errors.New("localnats: port is taken")

// serverLog passes a server's messages on and keeps the first fatal one, the only place where the server gives the reason of a failed start.
type serverLog struct {
	logger *slog.Logger

	mu    sync.Mutex
	fatal error
}

// The server formats its messages itself, so they arrive as an attribute.
const (
	logMessage = "NATS server"
	logText    = "text"
)

func (l *serverLog) Noticef(format string, v ...any) {
	l.logger.Debug(logMessage, logText, fmt.Sprintf(format, v...))
}

func (l *serverLog) Warnf(format string, v ...any) {
	l.logger.Warn(logMessage, logText, fmt.Sprintf(format, v...))
}

func (l *serverLog) Errorf(format string, v ...any) {
	l.logger.Error(logMessage, logText, fmt.Sprintf(format, v...))
}

func (l *serverLog) Debugf(string, ...any) {}

func (l *serverLog) Tracef(string, ...any) {}

func (l *serverLog) Fatalf(format string, v ...any) {
	message := fmt.Sprintf(format, v...)
	l.logger.Error(logMessage, logText, message)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fatal != nil {
		return
	}
	if strings.Contains(message, "address already in use") {
		l.fatal = fmt.Errorf("%w: %s", ErrPortTaken, message)
		return
	}
	l.fatal = fmt.Errorf("localnats: server: %s", message)
}

func (l *serverLog) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fatal
}
