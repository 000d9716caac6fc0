package main

import (
	"fmt"
	"runtime"

	"github.com/alecthomas/kong"

	"github.com/postrider/postrider/internal/buildinfo"
)

// flagGroups titles the groups of flags in a help, by the keys of the tags.
var flagGroups = kong.Groups{
	"database": "Database:", "nats": "NATS:", "stream": "Stream:", "delivery": "Delivery and order:", "retry": "Failures:",
	"shape": "What is published:", "monitor": "Monitor:",
}

// versionFlag prints the version instead of running anything.
type versionFlag bool

func (versionFlag) BeforeReset(ctx *kong.Context) error {
	fmt.Fprintln(ctx.Stdout, "postrider", buildinfo.Version())
	ctx.Exit(exitOK)
	return nil
}

type helpCmd struct {
	Command []string `arg:"" optional:"" help:"Command to be explained, such as: messages list."`
}

func (c *helpCmd) Run(s *session) error {
	if _, err := s.kong.Parse(append(c.Command, "--help")); err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	return nil
}

type versionCmd struct {
	JSON bool `help:"Print one JSON object." name:"json"`
}

func (c *versionCmd) Run(s *session) error {
	return answer(s.stdout, c.JSON, map[string]string{"version": buildinfo.Version(), "go": runtime.Version()}, "postrider "+buildinfo.Version()+" "+runtime.Version())
}
