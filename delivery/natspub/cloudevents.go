package natspub

import (
	"fmt"
	"mime"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider/delivery"
)

// The headers of a CloudEvent in binary mode.
const (
	HeaderCESpecVersion     = "ce-specversion"
	HeaderCEID              = "ce-id"
	HeaderCESource          = "ce-source"
	HeaderCEType            = "ce-type"
	HeaderCESubject         = "ce-subject"
	HeaderCETime            = "ce-time"
	HeaderCEDataContentType = "ce-datacontenttype"
	HeaderCEDataSchema      = "ce-dataschema"
	HeaderCEPartitionKey    = "ce-partitionkey"
	HeaderCESequence        = "ce-sequence"
)

// cePrefix begins the headers of all attributes.
const cePrefix = "ce-"

// CloudEvents adds the attributes of CloudEvents 1.0 as headers, by the binary content mode of its NATS protocol binding: the body
// stays the payload, and every attribute is a header whose value is percent-encoded.
type CloudEvents struct {
	// Source is the attribute of that name, a URI reference: which outbox the events come from. Source and id together identify an
	// event. Required.
	Source string
	// ContentType is the datacontenttype of events whose producer names none; "" leaves it out.
	ContentType string
}

// Validate refuses a source that is no URI reference and a content type that is no media type.
func (c CloudEvents) Validate() error {
	if c.Source == "" {
		return fmt.Errorf("%w: CloudEvents need a source", ErrConfig)
	}
	if _, err := url.Parse(c.Source); err != nil || ceEncode(c.Source) != strings.ReplaceAll(c.Source, "%", "%25") {
		return fmt.Errorf("%w: source %q of CloudEvents must be a URI reference (RFC 3986), such as /shop/orders or https://shop.example/orders",
			ErrConfig, c.Source)
	}
	if c.ContentType != "" && mediaType(c.ContentType) == "" {
		return fmt.Errorf("%w: content type %q of CloudEvents must be a media type, such as application/json", ErrConfig, c.ContentType)
	}
	return nil
}

// ceReserved are the attributes that the relay sets itself, or takes from the producer under its own conditions.
var ceReserved = map[string]bool{
	HeaderCESpecVersion: true, HeaderCEID: true, HeaderCESource: true, HeaderCEType: true, HeaderCESubject: true, HeaderCETime: true,
	HeaderCEDataContentType: true, HeaderCEDataSchema: true, HeaderCEPartitionKey: true, HeaderCESequence: true,
	"ce-data": true, "ce-data_base64": true,
}

// checkExtension refuses names under which a producer's header cannot be an extension attribute.
func checkExtension(name string) error {
	lower := strings.ToLower(name)
	switch {
	case !strings.HasPrefix(lower, cePrefix):
		if lower == "content-type" {
			return fmt.Errorf("with CloudEvents it would say that the event is in structured mode; %s has the producer's", HeaderCEDataContentType)
		}
		return nil
	case ceReserved[lower]:
		return fmt.Errorf("with CloudEvents the relay sets it")
	case strings.ContainsFunc(name[len(cePrefix):], func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }),
		len(name) == len(cePrefix), !strings.HasPrefix(name, cePrefix):
		return fmt.Errorf("an extension attribute of CloudEvents has lower-case letters and digits only")
	}
	return nil
}

// attributes are what CloudEvents says of every event, as headers.
type attributes struct {
	version, source, contentType string
}

func (c CloudEvents) attributes() *attributes {
	return &attributes{version: "1.0", source: ceEncode(c.Source), contentType: ceEncode(mediaType(c.ContentType))}
}

// add sets the attributes of a message. An optional attribute without a value is left out, as an empty one would be invalid.
func (a *attributes) add(w *writer, m delivery.Message) {
	e := m.Event
	stream := ceEncode(m.Stream)
	for _, h := range [...]struct{ name, value string }{
		{HeaderCESpecVersion, a.version},
		{HeaderCESource, a.source},
		{HeaderCEID, *w.fixed[0]},
		{HeaderCESequence, ceSequence(*w.fixed[1])},
		{HeaderCEType, ceEncode(e.Type)},
		{HeaderCESubject, stream},
		{HeaderCEPartitionKey, stream},
		{HeaderCETime, ceTime(w, e.OccurredAt)},
		{HeaderCEDataSchema, ceEncode(absoluteURI(e.Headers[HeaderCEDataSchema]))},
		{HeaderCEDataContentType, a.contentTypeOf(e.Headers)},
	} {
		if h.value != "" {
			w.set(h.name, h.value)
		}
	}
}

// ceSequence has as many digits for every event: the extension wants an order of texts.
func ceSequence(digits string) string {
	return "0000000000000000000"[min(len(digits), 19):] + digits
}

// contentTypeOf is what the producer says, else the default. What is no media type was not meant for this.
func (a *attributes) contentTypeOf(headers map[string]string) string {
	if len(headers) > 0 {
		for _, name := range [...]string{HeaderCEDataContentType, "content-type", "Content-Type"} {
			if t := mediaType(headers[name]); t != "" {
				return ceEncode(t)
			}
		}
	}
	return a.contentType
}

// mediaType writes a media type without the spaces that readers which do not decode would stumble over; "" when it is none.
func mediaType(text string) string {
	if text == "" {
		return ""
	}
	kind, parameters, err := mime.ParseMediaType(text)
	if err != nil || !strings.Contains(kind, "/") {
		return ""
	}
	return strings.ReplaceAll(mime.FormatMediaType(kind, parameters), "; ", ";")
}

// absoluteURI is the text when it is a URI with a scheme, else "".
func absoluteURI(text string) string {
	if text == "" {
		return ""
	}
	if u, err := url.Parse(text); err != nil || !u.IsAbs() {
		return ""
	}
	return text
}

// ceTime is RFC 3339 in UTC; "" for what that cannot express.
func ceTime(w *writer, t time.Time) string {
	t = t.UTC()
	if t.IsZero() || t.Year() < 0 || t.Year() > 9999 {
		return ""
	}
	return w.time(t)
}

// ceEncode encodes a value as the binding wants it: space, double quote, percent and everything outside the printable ASCII range
// become %XX for each byte of UTF-8.
func ceEncode(value string) string {
	plainly := true
	for i := range len(value) {
		plainly = plainly && ceKeeps(value[i])
	}
	if plainly {
		return value
	}
	var b strings.Builder
	b.Grow(len(value) + len(value)/2)
	for i := range len(value) {
		if c := value[i]; ceKeeps(c) {
			b.WriteByte(c)
		} else {
			writePercent(&b, c)
		}
	}
	return b.String()
}

func ceKeeps(c byte) bool { return c > ' ' && c < 0x7f && c != '"' && c != '%' }

// writePercent writes a byte as %XX.
func writePercent(b *strings.Builder, c byte) {
	if c < 16 {
		b.WriteString("%0")
	} else {
		b.WriteByte('%')
	}
	b.WriteString(strings.ToUpper(strconv.FormatUint(uint64(c), 16)))
}
