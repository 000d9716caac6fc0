package rewrite

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/postrider/postrider/delivery/shape"
)

// ErrRule is wrapped by every complaint about a rule.
var ErrRule = errors.New("rule for events")

// ErrNotJSON means that a payload to be redacted is no JSON.
var ErrNotJSON = errors.New("payload is no JSON, so nothing in it can be redacted")

// Rules change events.
type Rules struct {
	// Redactions are applied in no particular order.
	Redactions []Redaction
	// Renames gives types their new names.
	Renames map[string]string
}

// Redaction is one pointer into the payloads of one type, or of all when Type is "".
type Redaction struct {
	Type    string
	Pointer JSONPointer
}

// ParseRedaction reads "/customer/email", for all types, or "order.paid=/customer/email", for one.
func ParseRedaction(text string) (Redaction, error) {
	kind, pointer := "", text
	if at := strings.Index(text, "=/"); at > 0 && text[0] != '/' {
		kind, pointer = text[:at], text[at+1:]
	}
	p, err := ParsePointer(pointer)
	return Redaction{Type: kind, Pointer: p}, err
}

// ParseRename reads "old=new".
func ParseRename(text string) (from, to string, err error) {
	from, to, found := strings.Cut(text, "=")
	if !found || from == "" || to == "" || strings.Contains(to, "=") {
		return "", "", fmt.Errorf("%w: %q must be the stored type and the published one with one = between them", ErrRule, text)
	}
	return from, to, nil
}

// Empty reports whether the rules change nothing.
func (r Rules) Empty() bool { return len(r.Redactions) == 0 && len(r.Renames) == 0 }

// Validate refuses new names that cannot be types.
func (r Rules) Validate() error {
	for from, to := range r.Renames {
		if err := shape.CheckType(to); err != nil {
			return fmt.Errorf("%w: rename of %q: %w", ErrRule, from, err)
		}
	}
	return nil
}

// Transform returns the rules as a hook of the delivery.
func (r Rules) Transform() shape.Transform {
	byType := map[string][]JSONPointer{}
	for _, one := range r.Redactions {
		byType[one.Type] = append(byType[one.Type], one.Pointer)
	}
	everywhere := byType[""]
	for kind, own := range byType {
		if kind != "" {
			byType[kind] = append(own, everywhere...)
		}
	}
	return func(_ context.Context, d *shape.Draft) error {
		pointers, own := byType[d.Type]
		if !own {
			pointers = everywhere
		}
		payload, err := Redact(d.Payload, pointers)
		if err != nil {
			return fmt.Errorf("%w: %w", shape.ErrPermanent, err)
		}
		d.Payload = payload
		if to, ok := r.Renames[d.Type]; ok {
			d.Type = to
		}
		return nil
	}
}
