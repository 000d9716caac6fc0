package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"

	"go.yaml.in/yaml/v3"

	"github.com/postrider/postrider/outbox/capture"
)

type applyFlags struct {
	File   string `arg:"" name:"file" help:"The file, YAML or JSON."`
	Prune  bool   `help:"Drop what the file does not name; without it that is kept." env:"-"`
	Yes    bool   `help:"Confirm what needs it; without it that is printed, and nothing is changed." env:"-"`
	DryRun bool   `help:"Print what differs, and change nothing; the exit status is 1 where something does." env:"-"`
	JSON   bool   `help:"Print one JSON object." name:"json"`
}

func applyHelp(kind, format string) string {
	return `What differs from the file is printed and changed, in one transaction. What the file does not name is dropped with --prune
alone; what it leaves out of what it names has its default:

` + format + `

Examples:
  postrider ` + kind + ` export > ` + kind + `.yaml
  postrider ` + kind + ` apply ` + kind + `.yaml --dry-run
  postrider ` + kind + ` apply ` + kind + `.yaml --prune --yes`
}

// difference describes an act of apply on one type or capture.
type difference struct {
	Name     string                  `json:"name"`
	Action   string                  `json:"action"`
	Settings []capture.SettingChange `json:"settings,omitempty"`
	SQL      []string                `json:"sql,omitempty"`
}

// tell prints the differences. It returns refused, or an error where a dry run found some.
func (f applyFlags) tell(s *session, all []difference, refused error) error {
	differ := false
	for _, d := range all {
		text := d.Action + " " + d.Name
		if differ = differ || d.Action != capture.Kept; d.Action == capture.Kept {
			text += ": the file does not name it; --prune drops it"
		}
		for _, one := range d.Settings {
			text += fmt.Sprintf("\n  %s: %s -> %s", one.Setting, clip(one.Before, 500), clip(one.After, 500))
		}
		if !f.JSON {
			fmt.Fprintln(s.stdout, printable(text))
		}
	}
	switch {
	case f.JSON:
		if err := writeJSON(s.stdout, map[string]any{"dry_run": f.DryRun, "applied": refused == nil && !f.DryRun, "changes": append([]difference{}, all...)}); err != nil {
			return err
		}
	case !differ && refused == nil:
		fmt.Fprintln(s.stdout, "nothing to change")
	}
	if refused == nil && f.DryRun && differ {
		return errSilent
	}
	return refused
}

// ofGo matches words in the reader's errors that mean nothing to users.
var ofGo = regexp.MustCompile(`yaml: (unmarshal errors:\n *)?| in type \S+|!!\S+ | into (\S+)$`)

// readEntries reads a file strictly.
func readEntries(path string, to any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%w: FILE: %w", errRefused, err)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	switch err = decoder.Decode(to); {
	case err != nil && !errors.Is(err, io.EOF):
		return fmt.Errorf("%w: FILE: %s: %s", errRefused, path, ofGo.ReplaceAllString(err.Error(), ""))
	case err == nil && !errors.Is(decoder.Decode(new(any)), io.EOF):
		return fmt.Errorf("%w: FILE: %s must be one document", errRefused, path)
	}
	return nil
}

func export(s *session, all any) error {
	encoder := yaml.NewEncoder(s.stdout)
	encoder.SetIndent(2)
	return errors.Join(encoder.Encode(all), encoder.Close())
}
