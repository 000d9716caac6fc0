package main

import (
	"fmt"
	"io"
	"log/slog"
	"time"
)

// levelAuto leaves the level to the command.
const levelAuto = "auto"

// logger writes to standard error, by --log-level and --log-format.
func (s *session) logger() *slog.Logger { return s.loggerFrom(slog.LevelInfo) }

// loggerFrom is logger with this level for auto.
func (s *session) loggerFrom(auto slog.Level) *slog.Logger {
	level := auto
	if s.cli.LogLevel != levelAuto {
		_ = level.UnmarshalText([]byte(s.cli.LogLevel)) // the parser allows only known levels
	}
	return newLogger(s.stderr, level, s.cli.LogFormat)
}

func newLogger(w io.Writer, level slog.Level, format string) *slog.Logger {
	asObjects := format == "json"
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch v := a.Value.Any().(type) {
		case time.Duration: // 1.5s for people, 1.5 for programs
			if asObjects {
				a.Value = slog.Float64Value(v.Seconds())
			}
		case time.Time, slog.Level:
		case error:
			a.Value = slog.StringValue(redact(v.Error()))
		case string:
			a.Value = slog.StringValue(redact(v))
		case fmt.Stringer:
			a.Value = slog.StringValue(redact(v.String()))
		}
		return a
	}}
	if asObjects {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
