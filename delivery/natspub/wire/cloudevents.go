package wire

import (
	"fmt"
	"mime"
	"net/url"
	"strings"
	"time"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/message"
)

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
	if _, err := url.Parse(c.Source); err != nil || message.EncodeAttribute(c.Source) != strings.ReplaceAll(c.Source, "%", "%25") {
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
	message.HeaderCESpecVersion: true, message.HeaderCEID: true, message.HeaderCESource: true, message.HeaderCEType: true, message.HeaderCESubject: true, message.HeaderCETime: true,
	message.HeaderCEDataContentType: true, message.HeaderCEDataSchema: true, message.HeaderCEPartitionKey: true, message.HeaderCESequence: true,
	"ce-data": true, "ce-data_base64": true,
}

// checkExtension refuses names under which a producer's header cannot be an extension attribute.
func checkExtension(name string) error {
	lower := strings.ToLower(name)
	switch {
	case !strings.HasPrefix(lower, message.CEPrefix):
		if lower == "content-type" {
			return fmt.Errorf("with CloudEvents it would say that the event is in structured mode; %s has the producer's", message.HeaderCEDataContentType)
		}
		return nil
	case ceReserved[lower]:
		return fmt.Errorf("with CloudEvents the relay sets it")
	case strings.ContainsFunc(name[len(message.CEPrefix):], func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }),
		len(name) == len(message.CEPrefix), !strings.HasPrefix(name, message.CEPrefix):
		return fmt.Errorf("an extension attribute of CloudEvents has lower-case letters and digits only")
	}
	return nil
}

// attributes are those of every event, as CloudEvents headers.
type attributes struct {
	version, source, contentType string
}

func (c CloudEvents) attributes() *attributes {
	return &attributes{version: "1.0", source: message.EncodeAttribute(c.Source), contentType: message.EncodeAttribute(mediaType(c.ContentType))}
}

// add sets the attributes of a message. An optional attribute without a value is left out, as an empty one would be invalid.
func (a *attributes) add(w *Writer, m delivery.Message) {
	e := m.Event
	stream := message.EncodeAttribute(m.Stream)
	for _, h := range [...]struct{ name, value string }{
		{message.HeaderCESpecVersion, a.version},
		{message.HeaderCESource, a.source},
		{message.HeaderCEID, *w.fixed[0]},
		// The extension wants an order of texts: as many digits for every event.
		{message.HeaderCESequence, "0000000000000000000"[min(len(*w.fixed[1]), 19):] + *w.fixed[1]},
		{message.HeaderCEType, message.EncodeAttribute(e.Type)},
		{message.HeaderCESubject, stream},
		{message.HeaderCEPartitionKey, stream},
		{message.HeaderCETime, rfc3339(w, e.OccurredAt)},
		{message.HeaderCEDataSchema, message.EncodeAttribute(absoluteURI(e.Headers[message.HeaderCEDataSchema]))},
		{message.HeaderCEDataContentType, a.contentTypeOf(e.Headers)},
		{message.HeaderCECorrelationID, a.related(w, e.CorrelationID)},
		{message.HeaderCECausationID, a.related(w, e.CausationID)},
	} {
		if h.value != "" {
			w.Set(h.name, h.value)
		}
	}
}

// related returns the value of an attribute of the extension for correlation.
func (a *attributes) related(w *Writer, id string) string {
	if w.build.Headers.Minimal {
		return ""
	}
	return message.EncodeAttribute(id)
}

// contentTypeOf returns the producer's content type, else the default. It ignores values that are no media type.
func (a *attributes) contentTypeOf(headers map[string]string) string {
	if len(headers) > 0 {
		for _, name := range [...]string{message.HeaderCEDataContentType, "content-type", "Content-Type"} {
			if t := mediaType(headers[name]); t != "" {
				return message.EncodeAttribute(t)
			}
		}
	}
	return a.contentType
}

// mediaType writes a media type without spaces, over which readers that do not decode would stumble; "" when it is none.
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

// absoluteURI returns the text when it is a URI with a scheme, else "".
func absoluteURI(text string) string {
	if text == "" {
		return ""
	}
	if u, err := url.Parse(text); err != nil || !u.IsAbs() {
		return ""
	}
	return text
}

// rfc3339 writes a time in UTC; "" for one that RFC 3339 cannot express.
func rfc3339(w *Writer, t time.Time) string {
	t = t.UTC()
	if t.IsZero() || t.Year() < 1 || t.Year() > 9999 {
		return ""
	}
	return w.time(t)
}
