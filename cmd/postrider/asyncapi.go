package main

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/delivery/ops/contracts"
)

type asyncapiCmd struct {
	databaseFlags
	natsFlags
	streamFlags
	JSON       bool   `help:"Print JSON, as without --yaml." name:"json"`
	YAML       bool   `help:"Print YAML instead." name:"yaml" env:"-"`
	Title      string `help:"Title of the document." default:"Events" env:"-"`
	APIVersion string `help:"Version that the document says it is of." name:"api-version" default:"1.0.0" env:"-"`
	Newest     int    `help:"How many of the newest events are looked at for topics and types." default:"100000" env:"-"`
}

func (c *asyncapiCmd) Help() string {
	return `Topics and types that were seen, types that are registered, headers, and where NATS is, as AsyncAPI 3.0.0.
NATS itself is not asked. What the workers' --rename-type changes is not told.

Examples:
  postrider asyncapi > asyncapi.json
  postrider asyncapi --yaml --nats-url nats://nats.example.org --title Shop > asyncapi.yaml`
}

func (c *asyncapiCmd) Run(s *session) error {
	servers, err := c.told()
	if err != nil {
		return err
	}
	database := &typesFlags{databaseFlags: c.databaseFlags}
	return database.with(s, func(store *contracts.Store) error {
		c.complete(database.info)
		subject, err := wire.ParseSubject(c.Subject)
		if err != nil {
			return fmt.Errorf("%w: %w", errRefused, err)
		}
		list, err := store.List(s.ctx)
		if err != nil {
			return err
		}
		seen, err := store.Seen(s.ctx, c.Newest)
		if err != nil {
			return err
		}
		document, err := contracts.Document(contracts.About{
			Title: c.Title, Version: c.APIVersion, Servers: servers, Stream: c.Stream, Address: subject.Within, Token: wire.Token,
		}, list, seen)
		if err == nil && c.YAML {
			document, err = asYAML(document)
		}
		if err != nil {
			return err
		}
		_, err = s.stdout.Write(document)
		return err
	})
}

// told returns the URLs of NATS given by flag or context; the document names no other server.
func (c *asyncapiCmd) told() ([]string, error) {
	if c.NatsURL == "" && c.NatsContext == "" {
		return nil, nil
	}
	b, err := c.broker()
	return strings.Split(b.url, ","), err
}

// asYAML converts JSON to YAML, in the same order.
func asYAML(text []byte) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	var open func(*yaml.Node)
	open = func(n *yaml.Node) {
		n.Style &^= yaml.FlowStyle // texts keep their quotes: other readers take yes and no for booleans
		for _, child := range n.Content {
			open(child)
		}
	}
	open(&document)
	return yaml.Marshal(&document)
}
