package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// file is a configuration file: settings by the names of their flags, as they are written there. 007 and 1.10 may be texts. nil:
// the file leaves it open.
type file map[string]*string

// loadFile reads YAML, of which JSON is a part.
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

// Validate refuses settings that no command knows, or none from a file.
func (f file) Validate(app *kong.Application) error {
	known := map[string]bool{} // true: a file may have it
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

// Resolve gives kong the setting of a flag.
func (f file) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if len(flag.Envs) == 0 { // it belongs to the command line alone
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
