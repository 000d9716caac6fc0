package main

import (
	"fmt"
	"log/slog"
	"regexp"

	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/delivery/natspub"
)

// natsFlags say where the broker is and how to log in.
type natsFlags struct {
	NatsURL   string `help:"NATS URLs, separated by commas." default:"nats://127.0.0.1:4222" placeholder:"URL" env:"POSTRIDER_NATS_URL,NATS_URL"`
	NatsCreds string `help:"File with NATS credentials (JWT and key)." placeholder:"FILE" type:"existingfile"`
	NatsCA    string `help:"File with the certificates that sign the NATS servers'." placeholder:"FILE" type:"existingfile"`

	NatsInboxPrefix string `help:"Begin of the subjects on which NATS answers, of which the user may subscribe what is below it." default:"_INBOX"`
}

// inboxPrefix is what a subject may begin with: tokens without wildcards.
var inboxPrefix = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

// options are how to log in.
func (f natsFlags) options() (options []nats.Option, err error) {
	if f.NatsInboxPrefix != "" {
		if !inboxPrefix.MatchString(f.NatsInboxPrefix) {
			return nil, fmt.Errorf("%w: --nats-inbox-prefix must be tokens of letters, digits, _ and -, got %q", errRefused, f.NatsInboxPrefix)
		}
		options = append(options, nats.CustomInboxPrefix(f.NatsInboxPrefix))
	}
	if f.NatsCreds != "" {
		options = append(options, nats.UserCredentials(f.NatsCreds))
	}
	if f.NatsCA != "" {
		options = append(options, nats.RootCAs(f.NatsCA))
	}
	return options, nil
}

func (f natsFlags) connect(name string, log *slog.Logger, more ...nats.Option) (*nats.Conn, error) {
	options, err := f.options()
	if err != nil {
		return nil, err
	}
	return natspub.Connect(f.NatsURL, name, log, append(options, more...)...)
}

// streamFlags say which stream is published to.
type streamFlags struct {
	Stream  string `help:"JetStream stream that holds the events." default:"EVENTS"`
	Subject string `help:"Template of the subjects; fields {topic} {type} {partition} {stream} {tenant}." default:"events.{topic}.{type}"`
}

// createFlags say how a missing stream is made.
type createFlags struct {
	CreateStream    bool   `help:"Create the stream when it is missing."`
	StreamReplicas  int    `help:"Replicas of a created stream: 1, 3 or 5." default:"1"`
	StreamStorage   string `help:"Storage of a created stream: ${enum}." enum:"file,memory" default:"file"`
	StreamDuplicate string `name:"stream-duplicate-window" help:"Window of a created stream in which a message id is stored once." default:"2m"`
}

func (f createFlags) validate() error {
	if r := f.StreamReplicas; r != 1 && r != 3 && r != 5 {
		return fmt.Errorf("%w: --stream-replicas must be 1, 3 or 5, got %d", errRefused, r)
	}
	if _, err := positiveDuration("--stream-duplicate-window", f.StreamDuplicate); err != nil {
		return err
	}
	return nil
}
