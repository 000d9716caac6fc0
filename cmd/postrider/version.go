package main

import (
	"fmt"
	"runtime"

	"github.com/postrider/postrider/internal/buildinfo"
)

type versionCmd struct {
	JSON bool `help:"Print one JSON object." name:"json"`
}

// Run prints the version.
func (c *versionCmd) Run(s *session) error {
	if c.JSON {
		return writeJSON(s.stdout, map[string]string{"version": buildinfo.Version(), "go": runtime.Version()})
	}
	_, err := fmt.Fprintln(s.stdout, "postrider", buildinfo.Version(), runtime.Version())
	return err
}
