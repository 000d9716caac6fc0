package main

import (
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/jedib0t/go-pretty/v6/table"
	"go.yaml.in/yaml/v3"

	"github.com/postrider/postrider/delivery/natspub/wire"
)

// file is a configuration file: values by the names of their flags, as they are written, since 007 and 1.10 may be texts. nil: left
// open.
type file map[string]*string

// loadFile reads YAML, which includes JSON.
func loadFile(r io.Reader) (kong.Resolver, error) {
	nodes := map[string]yaml.Node{}
	if err := yaml.NewDecoder(r).Decode(&nodes); err != nil && err != io.EOF { //nolint:errorlint // the decoder returns it bare
		return nil, fmt.Errorf("configuration file: %w", err)
	}
	settings := file{}
	for name, node := range nodes {
		if settings[name] = nil; node.Tag == "!!null" {
			continue
		}
		parts := []*yaml.Node{&node}
		if node.Kind == yaml.SequenceNode {
			parts = node.Content
		}
		texts := make([]string, len(parts))
		for i, part := range parts {
			if part.Kind != yaml.ScalarNode {
				return nil, fmt.Errorf("configuration file: %s: a plain value or a list was expected", name)
			}
			texts[i] = part.Value
		}
		settings[name] = new(strings.Join(texts, ","))
	}
	return settings, nil
}

// Validate refuses settings that no command has, or that a file may not hold.
func (f file) Validate(app *kong.Application) error {
	known := map[string]bool{} // true: a file may hold it
	collectFlags(app.Node, known)
	for name := range f {
		readable, found := known[name]
		switch {
		case !found:
			return fmt.Errorf("configuration file: unknown setting %q", name)
		case !readable:
			return fmt.Errorf("configuration file: --%s is read from the command line alone", name)
		}
	}
	return nil
}

func collectFlags(node *kong.Node, known map[string]bool) {
	for _, f := range node.Flags {
		known[f.Name] = known[f.Name] || len(f.Envs) > 0
	}
	for _, child := range node.Children {
		collectFlags(child, known)
	}
}

// Resolve gives kong a flag's setting.
func (f file) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if len(flag.Envs) == 0 { // only the command line may set it
		return nil, nil // kong's way to say "not set here"
	}
	for _, variable := range flag.Envs {
		if _, set := os.LookupEnv(variable); set {
			return nil, nil // the environment wins over the file
		}
	}
	if text := f[flag.Name]; text != nil {
		return *text, nil
	}
	return nil, nil
}

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
		if slices.Contains([]string{"help", "config", "version", "wide"}, f.Name) {
			continue
		}
		names = append(names, f.Name)
		settings[f.Name] = setting{Value: shown(f.Name, f.Target.Interface()), Source: settingPlaces[rank(resolved, f.Name)], Env: strings.Join(f.Envs, ",")}
	}
	slices.Sort(names)
	var rows []table.Row
	for _, name := range names {
		rows = append(rows, table.Row{name, settings[name].Value, settings[name].Source, settings[name].Env})
	}
	return answerRows(s.stdout, asJSON, settings, table.Row{"setting", "value", "from", "environment"}, rows)
}

// Ranks of the sources of settings: the higher wins.
const (
	fromDefault = iota
	fromFile
	fromEnvironment
	fromCommandLine
)

var settingPlaces = []string{"default", "file", "environment", "command line"}

// rank returns the source of a flag's value.
func rank(ctx *kong.Context, name string) int {
	for _, f := range ctx.Flags() {
		if f.Name != name {
			continue
		}
		resolved := fromDefault
		for _, path := range ctx.Path {
			switch {
			case path.Flag == nil || path.Flag.Name != name:
			case !path.Resolved:
				return fromCommandLine
			default:
				resolved = fromFile
			}
		}
		for _, variable := range f.Envs {
			if _, set := os.LookupEnv(variable); set {
				return fromEnvironment
			}
		}
		return resolved
	}
	return fromDefault
}

// shown returns a value without its secrets.
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
			return wire.Redact(v)
		}
		return redact(v)
	case fmt.Stringer:
		return v.String()
	default:
		return value
	}
}
