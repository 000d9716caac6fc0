package main

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/postrider/postrider/delivery/natspub"
)

type configCmd struct {
	Print configPrintCmd `cmd:"" help:"Show every setting of 'run', where it comes from, with secrets left out."`
}

type configPrintCmd struct {
	JSON bool `help:"Print one JSON object." name:"json"`
}

type setting struct {
	Value  any    `json:"value"`
	Source string `json:"source"`
	Env    string `json:"env"`
}

// Run shows the settings as `run` would see them.
func (c *configPrintCmd) Run(s *session) error {
	asJSON := c.JSON // parsing again resets every flag
	args := []string{"run"}
	if s.cli.Config != "" {
		args = append([]string{"--config", string(s.cli.Config)}, args...)
	}
	resolved, err := s.kong.Parse(args)
	if err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	settings := map[string]setting{}
	var names []string
	for _, f := range resolved.Flags() {
		if f.Name == "help" || f.Name == "config" {
			continue
		}
		names = append(names, f.Name)
		settings[f.Name] = setting{
			Value: shown(f.Name, f.Target.Interface()), Source: source(f, s.cli.Config), Env: strings.Join(f.Envs, ","),
		}
	}
	if asJSON {
		return writeJSON(s.stdout, settings)
	}
	slices.Sort(names)
	var rows []table.Row
	for _, name := range names {
		rows = append(rows, table.Row{name, settings[name].Value, settings[name].Source, settings[name].Env})
	}
	writeTable(s.stdout, table.Row{"setting", "value", "from", "environment"}, rows)
	return nil
}

// source tells which of environment, file and default won.
func source(f *kong.Flag, path kong.ConfigFlag) string {
	for _, env := range f.Envs {
		if _, ok := os.LookupEnv(env); ok {
			return "environment"
		}
	}
	if path != "" {
		if content, err := os.Open(string(path)); err == nil {
			defer content.Close() //nolint:errcheck // only read
			if r, err := loadFile(content); err == nil {
				if settings, ok := r.(file); ok && settings[f.Name] != nil {
					return "file"
				}
			}
		}
	}
	return "default"
}

// shown is a value as people may see it.
func shown(name string, value any) any {
	if v := reflect.ValueOf(value); v.IsZero() {
		return value
	}
	if name == "http-token" {
		return "***"
	}
	switch v := value.(type) {
	case string:
		switch name {
		case "database-url":
			return redactDatabase(v)
		case "nats-url":
			return natspub.Redact(v)
		}
		return redact(v)
	case fmt.Stringer:
		return v.String()
	default:
		return value
	}
}
