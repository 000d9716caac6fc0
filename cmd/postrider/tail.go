package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/codec"
	"github.com/postrider/postrider/internal/ledger"
)

type tailCmd struct {
	natsFlags
	streamFlags
	Durable  string        `help:"Name of a durable consumer, which goes on where it stopped; without it an ephemeral one is used." placeholder:"NAME"`
	Filter   string        `help:"Subject filter; without it what --subject gives." placeholder:"SUBJECT"`
	All      bool          `help:"Begin with the oldest message instead of the next new one."`
	Count    bool          `help:"Count instead of printing."`
	Limit    int           `help:"End after that many messages; 0: never." default:"0"`
	IdleExit time.Duration `help:"End when nothing came for that long; 0: never." default:"0s"`
	Ordering string        `help:"Order that is checked: ${enum}." enum:"stream,partition" default:"stream"`
	Payload  bool          `help:"Print payloads, too."`
	JSON     bool          `help:"Print one JSON object a message, and the report as the last one." name:"json"`
}

// Help shows examples below the flags.
func (c *tailCmd) Help() string {
	return `Order is checked within each stream, and with --ordering partition within each partition, too.
The exit status is 1 when a message is out of order or comes twice.

Examples:
  postrider tail --all --count --idle-exit 2s     check everything the stream holds
  postrider tail --filter 'events.orders.>'       watch one topic`
}

type tailLine struct {
	StreamSequence uint64          `json:"stream_sequence"`
	Subject        string          `json:"subject"`
	Sequence       int64           `json:"sequence"`
	Partition      int             `json:"partition"`
	Stream         string          `json:"stream"`
	Version        int64           `json:"version"`
	Type           string          `json:"type"`
	EventID        string          `json:"event_id"`
	Epoch          int64           `json:"epoch,omitempty"`
	Generation     int32           `json:"generation,omitempty"`
	Payload        json.RawMessage `json:"payload,omitempty"`
}

// Run subscribes, prints or counts, and checks.
func (c *tailCmd) Run(s *session) error {
	filter := c.Filter
	if filter == "" {
		var err error
		if filter, err = eventsFilter(c.Subject); err != nil {
			return err
		}
	}
	if c.Limit < 0 {
		return fmt.Errorf("%w: --limit must not be negative, got %d", errRefused, c.Limit)
	}
	checker, err := ledger.NewChecker(ledger.Config{Ordering: ledger.Ordering(c.Ordering)})
	if err != nil {
		return err
	}
	nc, err := c.connect("postrider tail", s.logger())
	if err != nil {
		return err
	}
	defer nc.Close()
	from := jetstream.DeliverNewPolicy
	if c.All {
		from = jetstream.DeliverAllPolicy
	}
	ctx, stop := context.WithCancel(s.ctx)
	defer stop()
	t := &tail{cmd: c, out: s.stdout, err: s.stderr, checker: checker, stop: stop, terminal: isTerminal(s.stderr)}
	if c.IdleExit > 0 {
		t.idle = time.AfterFunc(c.IdleExit, stop)
		defer t.idle.Stop()
	}
	sub := subscription{stream: c.Stream, filter: filter, durable: c.Durable, from: from}
	if err := subscribe(ctx, nc, sub, func() {}, t.receive); err != nil {
		return err
	}
	return t.report(s)
}

// tail is a subscription under way.
type tail struct {
	cmd      *tailCmd
	out, err io.Writer
	checker  *ledger.Checker
	stop     func()
	idle     *time.Timer
	seen     int
	foreign  int
	shown    time.Time
	terminal bool
}

func (t *tail) receive(msg jetstream.Msg) error {
	if t.idle != nil {
		t.idle.Reset(t.cmd.IdleExit)
	}
	meta, err := msg.Metadata()
	if err != nil {
		return fmt.Errorf("message without metadata: %w", err)
	}
	m, err := ledger.ParseMessage(msg.Headers(), msg.Data(), meta.Sequence.Stream)
	if err != nil {
		t.foreign++
		fmt.Fprintf(t.err, "stream sequence %d: %v\n", meta.Sequence.Stream, err)
	} else {
		for _, fault := range t.checker.Receive(m) {
			fmt.Fprintf(t.err, "FAULT %s\n", fault)
		}
		if err := t.print(msg, m); err != nil {
			return err
		}
	}
	if t.seen++; t.cmd.Limit > 0 && t.seen >= t.cmd.Limit {
		t.stop()
	}
	return nil
}

func (t *tail) print(msg jetstream.Msg, m ledger.Message) error {
	switch {
	case t.cmd.Count:
		if t.terminal && time.Since(t.shown) > 100*time.Millisecond {
			t.shown = time.Now()
			fmt.Fprintf(t.err, "\r\x1b[K%d messages", t.seen)
		}
		return nil
	case t.cmd.JSON:
		line := tailLine{
			StreamSequence: m.StreamSequence, Subject: msg.Subject(), Sequence: m.Sequence, Partition: int(m.Partition),
			Stream: m.Stream, Version: m.StreamVersion, Type: m.Type, EventID: m.EventID.String(),
			Epoch: m.Epoch, Generation: m.Generation,
		}
		if t.cmd.Payload {
			line.Payload = jsonPayload(bodyOf(msg))
		}
		return writeJSON(t.out, line)
	default:
		payload := ""
		if t.cmd.Payload {
			payload = " " + string(jsonPayload(bodyOf(msg)))
		}
		_, err := fmt.Fprintf(t.out, "%d p%02d #%d %s@%d %s%s\n",
			m.StreamSequence, m.Partition, m.Sequence, m.Stream, m.StreamVersion, m.Type, payload)
		return err
	}
}

// bodyOf is the payload without the relay's compression; one that another program compressed stays as it is.
func bodyOf(msg jetstream.Msg) []byte {
	body, err := codec.Body(msg.Headers(), msg.Data(), 0)
	if err != nil {
		return msg.Data()
	}
	return body
}

// jsonPayload is the payload when it is JSON, else a JSON string or, for bytes
// that are no text, base64 in one.
func jsonPayload(data []byte) json.RawMessage {
	if json.Valid(data) {
		return data
	}
	var value any = data
	if utf8.Valid(data) {
		value = string(data)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return json.RawMessage(`null`)
	}
	return text
}

func (t *tail) report(s *session) error {
	report := t.checker.Report()
	if t.terminal && t.cmd.Count {
		fmt.Fprint(t.err, "\r\x1b[K")
	}
	if t.cmd.JSON {
		if err := writeJSON(s.stdout, report); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(s.stderr, "received %d events of %d streams in %d partitions: %d reordered, %d duplicates; %d messages without outbox headers\n",
			report.Received, report.Streams, report.Partitions, report.Reordered, report.Duplicates, t.foreign)
	}
	if !report.OK() {
		return errSilent
	}
	return nil
}
