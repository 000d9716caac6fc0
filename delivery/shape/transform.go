package shape

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/internal/headername"
)

// Draft is an event on its way to be published, as a Transform sees it. It shows only what is stored with the event for good, not the
// attempt, the generation or the worker, so that a function of it gives the same message whenever the event is published.
type Draft struct {
	// These say which event it is; changing them has no effect.
	ID                     uuid.UUID
	Sequence               int64
	Stream                 string
	StreamVersion          int64
	OccurredAt, RecordedAt time.Time

	// These can be changed. Type and Topic are 1 to 1024 bytes of UTF-8 without control characters and without spaces at the ends;
	// TenantID may also be empty. A new payload may have up to Config.MaxPayload bytes.
	Type, Topic, TenantID string
	Payload               []byte
	// Headers are the producer's, never nil, which the publisher sends, all or some: names of 1 to 128 token characters that do not begin with
	// Nats- or Outbox- and are not Status, Description or KV-Operation in any case, values without control characters, 32 KiB together.
	Headers map[string]string
}

// Transform (ADR 17) changes how an event is published: it brings old versions up to date, removes what must not leave the house, renames. What
// is stored stays as it is.
//
// It must be deterministic: the same draft, the same result, in every process and at any time. A message may be published again after a
// crash, and consumers take both for the same. So it must not look at clocks, random numbers or other services, and all workers must run
// the same one. It may be called for several partitions at once. It owns the draft until it returns; ctx ends when its time is up.
//
// An error, a panic, no answer within Config.TransformTimeout, or a result beyond the limits is a failure of that message alone, to which
// Config.Retry and Config.Failure apply; an error that wraps ErrPermanent makes it dead at once, and so does a result beyond the limits.
// The text of an error is stored and shown to operators: it should not quote what has to be removed.
type Transform func(ctx context.Context, d *Draft) error

// ErrTransform is wrapped by every failure of a Transform.
var ErrTransform = errors.New("transform")

// ErrPermanent can be wrapped by a Transform's error: trying again cannot succeed.
var ErrPermanent = errors.New("permanent")

// ErrNotDeterministic is returned by TryTransforms for results that differ.
var ErrNotDeterministic = errors.New("transform is not deterministic")

// TryTransforms applies transforms to a draft as a relay with that MaxPayload in bytes does (0: the default), twice, and compares: for
// tests. The draft itself stays as it is.
func TryTransforms(ctx context.Context, d Draft, maxPayload int64, transforms ...Transform) (Draft, error) {
	maxPayload = cmp.Or(maxPayload, delivery.DefaultMaxPayload)
	var results [2]Draft
	for i := range results {
		own := d
		own.Payload, own.Headers = bytes.Clone(d.Payload), maps.Clone(d.Headers)
		if own.Headers == nil {
			own.Headers = map[string]string{}
		}
		if err := applyTransforms(ctx, transforms, &own); err != nil {
			return Draft{}, err
		}
		if err := own.check(d, maxPayload); err != nil {
			return Draft{}, err
		}
		results[i] = own
	}
	if !results[0].equal(results[1]) {
		return Draft{}, fmt.Errorf("%w: event %s of type %q", ErrNotDeterministic, d.ID, d.Type)
	}
	return results[0], nil
}

func (d Draft) equal(o Draft) bool {
	return d.Type == o.Type && d.Topic == o.Topic && d.TenantID == o.TenantID && bytes.Equal(d.Payload, o.Payload) && maps.Equal(d.Headers, o.Headers)
}

// identify takes over what a transform cannot change.
func (d *Draft) identify(from Draft) {
	d.ID, d.Sequence, d.Stream, d.StreamVersion = from.ID, from.Sequence, from.Stream, from.StreamVersion
	d.OccurredAt, d.RecordedAt = from.OccurredAt, from.RecordedAt
}

// applyTransforms applies the hooks one after the other; a panic is an error.
func applyTransforms(ctx context.Context, transforms []Transform, d *Draft) (err error) {
	before := *d
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{value: fmt.Sprint(p), stack: debug.Stack()}
		}
		if err != nil {
			err = fmt.Errorf("%w: event %d of type %q: %w", ErrTransform, before.Sequence, clipText(before.Type), err)
		}
	}()
	for _, t := range transforms {
		if err := t(ctx, d); err != nil {
			return err
		}
		d.identify(before)
	}
	return nil
}

// panicError is a panic of a hook; its stack is for the log.
type panicError struct {
	value string
	stack []byte
}

func (e *panicError) Error() string { return "panic: " + clipText(e.value) }

// check compares a result with the limits of what producers may write. What was not changed is not judged.
func (d *Draft) check(before Draft, maxPayload int64) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: %w: event %d of type %q: %s", ErrTransform, ErrPermanent, before.Sequence, clipText(before.Type), fmt.Sprintf(format, args...))
	}
	for _, f := range []struct{ name, before, after string }{
		{"Type", before.Type, d.Type}, {"Topic", before.Topic, d.Topic}, {"TenantID", before.TenantID, d.TenantID},
	} {
		if f.after != f.before && !plainText(f.after) && (f.name != "TenantID" || f.after != "") {
			return refuse("the new %s must be 1 to 1024 bytes of UTF-8 without control characters and without spaces at its ends", f.name)
		}
	}
	if int64(len(d.Payload)) > maxPayload {
		return refuse("the new payload has %d bytes, the limit is %d", len(d.Payload), maxPayload)
	}
	if !maps.Equal(d.Headers, before.Headers) {
		if problem := headersProblem(d.Headers); problem != "" {
			return refuse("the new headers %s", problem)
		}
	}
	return nil
}

// The limits of producers' texts and headers, in bytes; see outbox.Event.
const (
	longestText = 1024
	longestName = 128
	mostHeaders = 32 << 10
)

// CheckType refuses what cannot be an event's type.
func CheckType(kind string) error {
	if !plainText(kind) {
		return fmt.Errorf("type %q must be 1 to 1024 bytes of UTF-8 without control characters and without spaces at its ends", clipText(kind))
	}
	return nil
}

func plainText(s string) bool {
	return s != "" && len(s) <= longestText && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl) && strings.Trim(s, " ") == s
}

func headersProblem(headers map[string]string) string {
	size := 0
	for name, value := range headers {
		size += len(name) + len(value)
		switch {
		case name == "" || len(name) > longestName || strings.ContainsFunc(name, func(r rune) bool {
			return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
		}):
			return "must have names of 1 to 128 token characters"
		case headername.Reserved(name) != "":
			return fmt.Sprintf("hold %q, which %s", name, headername.Reserved(name))
		case !utf8.ValidString(value) || strings.ContainsFunc(value, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }):
			return "must not hold line breaks or control characters"
		}
	}
	if size > mostHeaders {
		return "must not exceed 32 KiB"
	}
	return ""
}

func clipText(s string) string {
	const longest = 200
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + "…"
}
