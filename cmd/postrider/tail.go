package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/message/codec"
	"github.com/postrider/postrider/outbox/schema"
)

type tailCmd struct {
	databaseFlags
	natsFlags
	streamFlags
	Durable  string        `help:"Name of a durable consumer, which goes on where it stopped; without it an ephemeral one is used." placeholder:"NAME"`
	Filter   string        `help:"Subject filter; without it what --subject gives." placeholder:"SUBJECT"`
	All      bool          `help:"Begin with the oldest message instead of the next new one."`
	Count    bool          `help:"Count instead of printing."`
	Limit    int           `help:"End after that many messages; 0: never." default:"0"`
	IdleExit time.Duration `help:"End when nothing came for that long and the stream holds no more; 0: never." default:"0s"`
	Ordering string        `help:"Order that is looked at: ${enum}." enum:"partition,stream" default:"partition"`
	Strict   bool          `help:"Count what is late within its partition as a fault, too: where nothing fails, is scheduled, requeued or resized."`
	Payload  bool          `help:"Print payloads, too."`
	JSON     bool          `help:"Print one JSON object a message, and the report as the last one." name:"json"`
}

func (c *tailCmd) Help() string {
	return `The exit status is 1 when a message is out of the order of its stream, or comes twice. What comes late within its
partition is told: messages that failed, were scheduled or requeued, and those of before a resize, may. With
--strict they are faults.

Examples:
  postrider tail --all --count --idle-exit 2s     check everything the stream holds
  postrider tail --filter 'events.orders.>'       watch one topic`
}

type tailLine struct {
	StreamSequence uint64          `json:"stream_sequence"`
	Subject        string          `json:"subject"`
	Sequence       int64           `json:"global_sequence"`
	Partition      int             `json:"partition_key"`
	Stream         string          `json:"stream_id"`
	Version        int64           `json:"stream_version"`
	Type           string          `json:"event_type"`
	EventID        string          `json:"event_id"`
	Epoch          int64           `json:"lease_epoch,omitempty"`
	Generation     int32           `json:"generation,omitempty"`
	Payload        json.RawMessage `json:"payload,omitempty"`
}

func (c *tailCmd) Run(s *session) error {
	if c.Limit < 0 {
		return fmt.Errorf("%w: --limit must not be negative, got %d", errRefused, c.Limit)
	}
	if c.Strict && c.Ordering != string(ledger.ByPartition) {
		return fmt.Errorf("%w: --strict is about the order of partitions; it excludes --ordering %s", errRefused, c.Ordering)
	}
	t := &tail{cmd: c, out: s.stdout, err: s.stderr, terminal: isTerminal(s.stderr)}
	judge := ledger.Config{Ordering: ledger.ByStream}
	switch {
	case c.Strict:
		judge.Ordering = ledger.ByPartition
	case c.Ordering == string(ledger.ByPartition):
		judge.LateInPartition = t.late
	}
	if err := c.ask(s.ctx); err != nil {
		return err
	}
	filter, err := eventsFilter(c.Subject)
	if err != nil {
		return err
	}
	if t.checker, err = ledger.NewChecker(judge); err != nil {
		return err
	}
	nc, apiPrefix, err := c.connect("postrider tail", s.logger())
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
	t.stop = stop
	sub := subscription{apiPrefix: apiPrefix, stream: c.Stream, filter: cmp.Or(c.Filter, filter), durable: c.Durable, from: from, idle: c.IdleExit}
	if err := subscribe(ctx, nc, sub, func() {}, t.receive); err != nil {
		return err
	}
	return t.report(s)
}

// ask completes the flags from the database. Without one, or without an outbox there, the flags alone count.
func (c *tailCmd) ask(ctx context.Context) error {
	var info outboxInfo
	if (c.Stream == "" || c.Subject == "" && c.Filter == "") && c.given() {
		pool, found, err := c.outbox(ctx, "postrider tail", 1)
		switch {
		case err == nil:
			pool.Close()
		case !errors.Is(err, schema.ErrNotMigrated) || c.Schema != schema.DefaultSchema:
			return fmt.Errorf("%w; with --stream, and --subject or --filter, the database is not asked", err)
		}
		info = found
	}
	c.complete(info)
	return nil
}

type tail struct {
	cmd      *tailCmd
	out, err io.Writer
	checker  *ledger.Checker
	stop     func()
	seen     int
	foreign  int
	lateOnes int
	shown    time.Time
	terminal bool
}

// lateShown bounds the late messages that are printed one by one; the end counts all.
const lateShown = 10

// late prints a message that came after newer ones of its partition.
func (t *tail) late(f ledger.Fault) {
	if t.lateOnes++; t.lateOnes <= lateShown {
		fmt.Fprintf(t.err, "late %s\n", f)
	}
}

func (t *tail) receive(msg jetstream.Msg) error {
	m, err := ledger.ReadMessage(msg)
	if err != nil {
		t.foreign++
		fmt.Fprintln(t.err, printable(err.Error()))
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
			m.StreamSequence, m.Partition, m.Sequence, printable(m.Stream), m.StreamVersion, printable(m.Type), printable(payload))
		return err
	}
}

// bodyOf returns the payload without the relay's compression; another program's compression stays.
func bodyOf(msg jetstream.Msg) []byte {
	body, err := codec.Body(msg.Headers(), msg.Data(), 0)
	if err != nil {
		return msg.Data()
	}
	return body
}

// jsonPayload returns a payload of JSON as it is, text as a JSON string, and other bytes as base64 in one.
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

// tailReport is the verdict of a subscriber, who knows neither the committed events nor their latency.
type tailReport struct {
	OK         bool `json:"ok"`
	Received   int  `json:"received"`
	Streams    int  `json:"streams"`
	Partitions int  `json:"partitions"`
	Reordered  int  `json:"reordered"`
	Duplicates int  `json:"duplicates"`
	Altered    int  `json:"altered"`
	Epochs     int  `json:"epoch_faults"`
	// Late counts events after newer ones of their partition; null with --ordering stream.
	Late        *int           `json:"late_in_partition"`
	Replayed    int            `json:"replayed"`
	Redelivered int            `json:"redelivered"`
	Foreign     int            `json:"without_headers"`
	Faults      []ledger.Fault `json:"faults"`
}

func (t *tail) report(s *session) error {
	report := t.checker.Report()
	if t.terminal && t.cmd.Count {
		fmt.Fprint(t.err, "\r\x1b[K")
	}
	body := tailReport{
		OK: report.OK(), Received: report.Received, Streams: report.Streams, Partitions: report.Partitions, Reordered: report.Reordered,
		Duplicates: report.Duplicates, Altered: report.Altered, Epochs: report.EpochFaults, Replayed: report.Replayed,
		Redelivered: report.Redelivered, Foreign: t.foreign, Faults: append([]ledger.Fault{}, report.Faults...),
	}
	late := ""
	if t.cmd.Ordering == string(ledger.ByPartition) {
		body.Late = &report.PartitionReversals
		late = fmt.Sprintf(", %d late within their partition", report.PartitionReversals)
	}
	if t.cmd.JSON {
		if err := writeJSON(s.stdout, body); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(s.stderr, "received %d events of %d streams in %d partitions: %d reordered, %d duplicates%s; %d messages without outbox headers\n",
			report.Received, report.Streams, report.Partitions, report.Reordered, report.Duplicates, late, t.foreign)
	}
	if c := t.cmd; c.Limit > 0 && t.seen < c.Limit {
		fmt.Fprintf(s.stderr, "ended after %d of --limit %d messages\n", t.seen, c.Limit)
	}
	if !report.OK() {
		return errSilent
	}
	return nil
}
