package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// file is a configuration file: settings by the names of their flags.
type file map[string]any

// loadFile reads YAML, of which JSON is a part.
func loadFile(r io.Reader) (kong.Resolver, error) {
	settings := map[string]any{}                                                  // the decoder gives nested maps the type of the outer one
	if err := yaml.NewDecoder(r).Decode(&settings); err != nil && err != io.EOF { //nolint:errorlint // the decoder returns it bare
		return nil, fmt.Errorf("configuration file: %w", err)
	}
	for name, value := range settings {
		if _, nested := value.(map[string]any); nested {
			return nil, fmt.Errorf("configuration file: %s: a plain value or a list was expected", name)
		}
	}
	return file(settings), nil
}

// Validate refuses settings that no command knows.
func (f file) Validate(app *kong.Application) error {
	var known []string
	collectFlags(app.Node, &known)
	for name := range f {
		if !slices.Contains(known, name) {
			return fmt.Errorf("configuration file: unknown setting %q", name)
		}
	}
	return nil
}

func collectFlags(node *kong.Node, names *[]string) {
	for _, f := range node.Flags {
		*names = append(*names, f.Name)
	}
	for _, child := range node.Children {
		collectFlags(child, names)
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
	switch v := f[flag.Name].(type) {
	case nil:
		return nil, nil // kong's way to say "not set here"
	case []any:
		parts := make([]string, len(v))
		for i, p := range v {
			parts[i] = fmt.Sprint(p)
		}
		return strings.Join(parts, ","), nil
	default:
		return fmt.Sprint(v), nil
	}
}
