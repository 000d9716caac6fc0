package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/delivery/rewrite"
	"github.com/postrider/postrider/delivery/shape"
	"github.com/postrider/postrider/heartbeat"
	"github.com/postrider/postrider/message/codec"
)

type shapeFlags struct {
	Headers       string   `help:"Headers of a message: ${enum}." enum:"standard,full,minimal" default:"standard"`
	ForwardHeader []string `help:"Of the producers' own headers only this one is sent; repeatable." placeholder:"NAME"`

	Cloudevents       bool   `help:"Add the headers of CloudEvents 1.0 in binary mode; needs --cloudevents-source." name:"cloudevents"`
	CloudeventsSource string `help:"Attribute source of all events, a URI reference such as /shop/orders." placeholder:"URI"`

	RedactPointer []string `help:"JSON pointer to what is removed from payloads, as /customer/email or TYPE=/customer/email; * stands for every element of an array; repeatable." placeholder:"[TYPE=]/POINTER"`
	RenameType    []string `help:"Publish a type under another name; repeatable." placeholder:"STORED=PUBLISHED"`

	Compress string `help:"Compress payloads: none, or zstd, s2 or gzip, and above which size where 8KiB is not right, as zstd:1KiB." default:"none" placeholder:"ENCODING[:SIZE]"`
}

const (
	compressNone = "none"
	// compressAbove is the default size above which payloads are compressed.
	compressAbove = "8KiB"
	// contentType is the default type of payloads, where the producer gives none.
	contentType = "application/json"
)

func (f shapeFlags) headers() wire.Headers {
	h := wire.Headers{Full: f.Headers == "full", Minimal: f.Headers == "minimal", Forward: f.ForwardHeader}
	if f.Cloudevents {
		h.CloudEvents = &wire.CloudEvents{Source: f.CloudeventsSource, ContentType: contentType}
	}
	return h
}

// compression reads --compress: the encoding, and the size in bytes above which it is used.
func (f shapeFlags) compression() (encoding codec.Encoding, above int, err error) {
	name, size, given := strings.Cut(f.Compress, ":")
	if !given {
		size = compressAbove
	}
	bytes, err := humanize.ParseBytes(size)
	if err != nil || bytes > codec.MaxLimit || given && name == compressNone {
		return "", 0, fmt.Errorf("%w: --compress must be none, or zstd, s2 or gzip, alone or with a size from 0 to 64MiB such as zstd:1KiB, got %q", errRefused, f.Compress)
	}
	return codec.Encoding(name), int(bytes), nil // at most 64 MiB
}

// compressor returns nil for no compression.
func (f shapeFlags) compressor() (*codec.Compressor, error) {
	encoding, above, err := f.compression()
	if err != nil || encoding == compressNone {
		return nil, err // a nil compressor compresses nothing
	}
	c, err := codec.NewCompressor(encoding, above)
	if err != nil {
		return nil, fmt.Errorf("%w: --compress: %w", errRefused, err)
	}
	return c, nil
}

func (f shapeFlags) rules() (rewrite.Rules, error) {
	rules := rewrite.Rules{Renames: map[string]string{}}
	refuse := func(flag string, err error) (rewrite.Rules, error) {
		return rewrite.Rules{}, fmt.Errorf("%w: %s: %w", errRefused, flag, err)
	}
	for _, text := range f.RedactPointer {
		r, err := rewrite.ParseRedaction(text)
		if err != nil {
			return refuse("--redact-pointer", err)
		}
		rules.Redactions = append(rules.Redactions, r)
	}
	for _, text := range f.RenameType {
		from, to, err := rewrite.ParseRename(text)
		if err != nil {
			return refuse("--rename-type", err)
		}
		if _, twice := rules.Renames[from]; twice {
			return refuse("--rename-type", fmt.Errorf("%w: %q is renamed twice", rewrite.ErrRule, from))
		}
		rules.Renames[from] = to
	}
	if err := rules.Validate(); err != nil {
		return refuse("--rename-type", err)
	}
	return rules, nil
}

func (f shapeFlags) transforms() ([]shape.Transform, error) {
	rules, err := f.rules()
	if err != nil || rules.Empty() {
		return nil, err
	}
	return []shape.Transform{rules.Transform()}, nil
}

func (f shapeFlags) shape(template string) (wire.Shape, error) {
	var subject wire.Subject // none: the one stored with the outbox
	if template != "" {
		var err error
		if subject, err = wire.ParseSubject(template); err != nil {
			return wire.Shape{}, fmt.Errorf("%w: %w", errRefused, err)
		}
	}
	compressor, err := f.compressor()
	return wire.Shape{Subject: subject, Headers: f.headers(), Compressor: compressor}, err
}

// plainShape describes messages of default settings.
const plainShape = "plain"

// settings writes the settings that change messages as flags, the same text for the same messages.
func (f shapeFlags) settings() string {
	var parts []string
	add := func(flag, value string) { parts = append(parts, "--"+flag+" "+strconv.Quote(value)) }
	each := func(flag string, values []string) {
		for _, v := range slices.Compact(slices.Sorted(slices.Values(values))) {
			add(flag, v)
		}
	}
	if f.Headers != "standard" {
		add("headers", f.Headers)
	}
	each("forward-header", f.ForwardHeader)
	if f.Cloudevents {
		add("cloudevents-source", f.CloudeventsSource)
	}
	each("redact-pointer", f.RedactPointer)
	each("rename-type", f.RenameType)
	if encoding, above, err := f.compression(); err == nil && encoding != compressNone {
		add("compress", string(encoding)+":"+strconv.Itoa(above))
	}
	if len(parts) == 0 {
		return plainShape
	}
	return strings.Join(parts, " ")
}

func (f shapeFlags) validate() error {
	switch {
	case f.Cloudevents && f.CloudeventsSource == "":
		return fmt.Errorf("%w: --cloudevents needs --cloudevents-source, a URI reference such as /shop/orders that says where the events come from", errRefused)
	case !f.Cloudevents && f.CloudeventsSource != "":
		return fmt.Errorf("%w: --cloudevents-source means nothing without --cloudevents", errRefused)
	}
	if err := f.headers().Validate(); err != nil {
		return fmt.Errorf("%w: --forward-header, --cloudevents-source: %w", errRefused, err)
	}
	c, err := f.compressor()
	if err != nil {
		return err
	}
	if err := (wire.Shape{Headers: f.headers(), Compressor: c}).Validate(); err != nil {
		return fmt.Errorf("%w: --forward-header, --compress: %w", errRefused, err)
	}
	_, err = f.rules()
	return err
}

// workerShapes returns the shapes of the living workers' messages, each once, sorted. Workers that report none are left out.
func workerShapes(snapshot heartbeat.Snapshot) []string {
	shapes := map[string]bool{}
	for _, w := range snapshot.Workers {
		if w.Live() && w.Shape != "" {
			shapes[w.Shape] = true
		}
	}
	return slices.Sorted(maps.Keys(shapes))
}

// checkShape refuses to publish past the workers in another shape than theirs, such as without their redaction.
func (f paceFlags) checkShape(s *session, pool *pgxpool.Pool, schema string) error {
	if f.OtherShape {
		return nil
	}
	living, err := readWorkers(s.ctx, pool, schema)
	if err != nil {
		return err
	}
	shapes, own := workerShapes(living), f.shapeFlags.settings()
	if len(shapes) == 0 {
		fmt.Fprintf(s.stderr, "no worker is there that says what its messages look like; these will be %s\n", own)
		return nil
	}
	for _, theirs := range shapes {
		if theirs != own {
			return fmt.Errorf("%w: workers publish with the settings %s, this replay would with %s: give it theirs, or confirm with --other-shape that other messages are meant",
				errRefused, theirs, own)
		}
	}
	return nil
}

// shapeFinding compares the messages that the workers make.
func shapeFinding(living heartbeat.Snapshot, err error) finding {
	shapes := workerShapes(living)
	switch {
	case err != nil:
		return finding{"message settings", levelError, redact(err.Error())}
	case len(shapes) > 1:
		return finding{"message settings", levelWarning, "workers publish with different settings: " + strings.Join(shapes, "; ") +
			"; messages that are published again may differ"}
	case len(shapes) == 0:
		return finding{"message settings", levelOK, "no worker is there"}
	}
	return finding{"message settings", levelOK, "all workers: " + shapes[0]}
}
