package wire

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/postrider/postrider/delivery"
)

// DefaultSubject is the template of a publisher that was given none.
const DefaultSubject = "events.{topic}.{type}"

// tokenLimit is the longest token that is taken from data as it is, in bytes. A longer one keeps its beginning and ends in a hash of the
// whole; with it a subject of six tokens stays within the server's control line of 4096 bytes.
const tokenLimit = 255

// Subject is a parsed template.
type Subject struct {
	text  string
	parts []subjectPart
	own   bool // depends on more than topic, type and tenant
}

type subjectPart struct {
	literal string
	field   string
}

var (
	subjectField   = regexp.MustCompile(`\{[^{}]*\}`)
	subjectLiteral = regexp.MustCompile(`^[A-Za-z0-9_\-.]*$`)
)

// ParseSubject reads a template such as "events.{topic}.{type}". The fields are {topic}, {type}, {partition}, {stream} and {tenant}; each
// must be a whole token. Wildcards, spaces and empty tokens are refused.
func ParseSubject(template string) (Subject, error) {
	refuse := func(why string) (Subject, error) {
		return Subject{}, fmt.Errorf("%w: --subject %q: %s", ErrConfig, template, why)
	}
	s := Subject{text: template}
	for token := range strings.SplitSeq(template, ".") {
		switch {
		case token == "":
			return refuse("a token between the dots is empty")
		case subjectField.MatchString(token) && subjectField.FindString(token) == token:
			field := strings.Trim(token, "{}")
			switch field {
			case "topic", "type", "partition", "stream", "tenant":
			default:
				return refuse(fmt.Sprintf("unknown field {%s}; known are {topic} {type} {partition} {stream} {tenant}", field))
			}
			s.own = s.own || field == "stream" || field == "partition"
			s.parts = append(s.parts, subjectPart{field: field})
		case !subjectLiteral.MatchString(token):
			return refuse(fmt.Sprintf("token %q may hold only letters, digits, '-' and '_', or be one {field}", token))
		default:
			s.parts = append(s.parts, subjectPart{literal: token})
		}
	}
	if s.parts[0].field != "" {
		return refuse("the first token must be fixed, so that all subjects lie under one prefix")
	}
	return s, nil
}

// String returns the template.
func (s Subject) String() string { return s.text }

// Filter returns the subject with a wildcard for every field.
func (s Subject) Filter() string {
	tokens := make([]string, len(s.parts))
	for i, p := range s.parts {
		if tokens[i] = p.literal; p.field != "" {
			tokens[i] = "*"
		}
	}
	return strings.Join(tokens, ".")
}

// Within returns the subject of a topic's messages, with the other fields left in braces.
func (s Subject) Within(topic string) string {
	tokens := make([]string, len(s.parts))
	for i, p := range s.parts {
		switch p.field {
		case "":
			tokens[i] = p.literal
		case "topic":
			tokens[i] = Token(topic)
		default:
			tokens[i] = "{" + p.field + "}"
		}
	}
	return strings.Join(tokens, ".")
}

// Token returns data as one token of a subject.
func Token(data string) string {
	var b strings.Builder
	encodeToken(&b, data)
	return b.String()
}

// Of builds a message's subject.
func (s Subject) Of(m delivery.Message) string {
	var b strings.Builder
	b.Grow(64)
	for i, p := range s.parts {
		if i > 0 {
			b.WriteByte('.')
		}
		switch p.field {
		case "":
			b.WriteString(p.literal)
		case "topic":
			encodeToken(&b, m.Topic)
		case "type":
			encodeToken(&b, m.Event.Type)
		case "partition":
			b.WriteString(strconv.Itoa(int(m.Partition)))
		case "stream":
			encodeToken(&b, m.Stream)
		case "tenant":
			encodeToken(&b, m.Event.TenantID)
		}
	}
	return b.String()
}

// encodeToken writes data as one subject token. An empty value becomes "_".
func encodeToken(b *strings.Builder, data string) {
	if data == "" {
		b.WriteByte('_')
		return
	}
	start := b.Len()
	for i := range len(data) {
		c := data[i]
		if plain(c) {
			b.WriteByte(c)
		} else {
			const hex = "0123456789ABCDEF"
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
		if b.Len()-start > tokenLimit {
			kept := b.String()
			kept = kept[:start+tokenLimit-20]
			b.Reset()
			b.WriteString(kept)
			fmt.Fprintf(b, "~%016x", xxhash.Sum64String(data))
			return
		}
	}
}

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}
