package main

import (
	"fmt"
	"io"
	"log/slog"
	"time"
)

// logger writes to standard error as --log-level and --log-format say.
func (s *session) logger() *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(s.cli.LogLevel)) // the parser allows only known levels
	return newLogger(s.stderr, level, s.cli.LogFormat)
}

func newLogger(w io.Writer, level slog.Level, format string) *slog.Logger {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch v := a.Value.Any().(type) {
		case time.Time, time.Duration, slog.Level:
		case error:
			a.Value = slog.StringValue(redact(v.Error()))
		case string:
			a.Value = slog.StringValue(redact(v))
		case fmt.Stringer:
			a.Value = slog.StringValue(redact(v.String()))
		}
		return a
	}}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
