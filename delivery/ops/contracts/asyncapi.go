package contracts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider/delivery/ops/maintenance"
	"github.com/postrider/postrider/message"
)

// About completes contracts and events in a Document.
type About struct {
	Title, Version string
	// Servers are URLs of NATS. The document has their scheme, host and port alone.
	Servers []string
	// Stream is the JetStream stream.
	Stream string
	// Address returns the subject of a topic's messages, with the other fields of the template in braces.
	Address func(topic string) string
	// Token returns a text as one token of a subject.
	Token func(text string) string
}

// These are the objects of https://www.asyncapi.com/docs/reference/specification/v3.0.0, as far as they are used.
type (
	document struct {
		AsyncAPI   string               `json:"asyncapi"`
		Info       info                 `json:"info"`
		Servers    map[string]server    `json:"servers,omitempty"`
		Channels   map[string]channel   `json:"channels"`
		Operations map[string]operation `json:"operations"`
		Components components           `json:"components"`
	}
	info struct {
		Title       string `json:"title"`
		Version     string `json:"version"`
		Description string `json:"description"`
	}
	server struct {
		Host        string `json:"host"`
		Protocol    string `json:"protocol"`
		Description string `json:"description,omitempty"`
	}
	channel struct {
		Address     string               `json:"address"`
		Title       string               `json:"title"`
		Description string               `json:"description"`
		Messages    map[string]reference `json:"messages"`
		Parameters  map[string]parameter `json:"parameters,omitempty"`
	}
	parameter struct {
		Description string   `json:"description"`
		Enum        []string `json:"enum,omitempty"`
	}
	operation struct {
		Action   string      `json:"action"`
		Channel  reference   `json:"channel"`
		Messages []reference `json:"messages"`
	}
	components struct {
		Messages map[string]described `json:"messages"`
		Schemas  map[string]any       `json:"schemas"`
	}
	described struct {
		Name        string     `json:"name"`
		Title       string     `json:"title"`
		Summary     string     `json:"summary,omitempty"`
		Description string     `json:"description"`
		ContentType string     `json:"contentType,omitempty"`
		Headers     reference  `json:"headers"`
		Payload     *reference `json:"payload,omitempty"`
	}
	reference struct {
		Ref string `json:"$ref"`
	}
)

const (
	headersKey = "headers"
	ofSchemas  = "#/components/schemas/"
	ofMessages = "#/components/messages/"
)

// fields describe the variable fields of a subject.
var fields = map[string]string{
	"type": "The event's type, as one token.", "partition": "The number of the partition.", "stream": "The event's stream, as one token.",
	"tenant": "The event's tenant, as one token; _ for none.",
}

var field = regexp.MustCompile(`\{([a-z]+)\}`)

// Document describes topics and types as AsyncAPI 3.0.0, in JSON. The same input gives the same bytes.
func Document(about About, contracts []Contract, seen []Seen) ([]byte, error) {
	d := document{
		AsyncAPI: "3.0.0",
		Info: info{about.Title, about.Version, "Events that Postrider delivers from PostgreSQL to NATS JetStream. " +
			"Bytes of a subject's tokens that are no letters, digits, - or _ are written as %XX."},
		Channels: map[string]channel{}, Operations: map[string]operation{},
		Components: components{Messages: map[string]described{}, Schemas: map[string]any{headersKey: headers()}},
	}
	var err error
	if d.Servers, err = servers(about.Servers); err != nil {
		return nil, err
	}
	types := &keys{taken: map[string]string{headersKey: ""}}
	for _, c := range contracts {
		if err := d.add(types.of(c.Type), c); err != nil {
			return nil, err
		}
	}
	topics := &keys{taken: map[string]string{}}
	for _, s := range seen {
		key := types.of(s.Type)
		if _, known := d.Components.Messages[key]; !known {
			d.Components.Messages[key] = described{
				Name: s.Type, Title: s.Type, Description: "Events of this type were seen. What their payloads look like is not registered.",
				Headers: reference{ofSchemas + headersKey},
			}
		}
		d.say(about, topics.of(s.Topic), key, s)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(d); err != nil {
		return nil, fmt.Errorf("write the document: %w", err)
	}
	return out.Bytes(), nil
}

func (d *document) add(key string, c Contract) error {
	var schema map[string]any
	decoder := json.NewDecoder(bytes.NewReader(c.Schema))
	decoder.UseNumber()
	if err := decoder.Decode(&schema); err != nil {
		return fmt.Errorf("read the schema of type %s: %w", c.Type, err)
	}
	delete(schema, "$schema")
	delete(schema, "$id") // from there references would begin
	d.Components.Schemas[key] = rooted(schema, ofSchemas+key)
	says := "Payloads are not checked with the schema. It was set at "
	if c.Checked {
		says = "Payloads are checked with the schema when events are appended. It was set at "
	}
	d.Components.Messages[key] = described{
		Name: c.Type, Title: c.Type, Summary: c.Description, Description: says + c.UpdatedAt.UTC().Format(time.RFC3339) + ".",
		ContentType: "application/json", Headers: reference{ofSchemas + headersKey}, Payload: &reference{ofSchemas + key},
	}
	return nil
}

// say adds the events of a type to a topic.
func (d *document) say(about About, topic, message string, s Seen) {
	c, known := d.Channels[topic]
	if !known {
		c = channel{
			Address: about.Address(s.Topic), Title: s.Topic, Description: "Topic " + s.Topic + ", in the JetStream stream " + about.Stream + ".",
			Messages: map[string]reference{}, Parameters: map[string]parameter{},
		}
		for _, found := range field.FindAllStringSubmatch(c.Address, -1) {
			c.Parameters[found[1]] = parameter{Description: fields[found[1]]}
		}
	}
	c.Messages[message] = reference{ofMessages + message}
	if p, has := c.Parameters["type"]; has {
		p.Enum = append(p.Enum, about.Token(s.Type))
		c.Parameters["type"] = p
	}
	d.Channels[topic] = c
	o := d.Operations["publish-"+topic]
	o.Action, o.Channel = "send", reference{"#/channels/" + topic}
	o.Messages = append(o.Messages, reference{"#/channels/" + topic + "/messages/" + message})
	d.Operations["publish-"+topic] = o
}

// keys turn names into keys of the document: letters, digits, dot, _ and -.
type keys struct{ taken map[string]string }

func (k *keys) of(name string) string {
	base := strings.Map(func(r rune) rune {
		if r < 128 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(".-_", r)) {
			return r
		}
		return '_'
	}, name)
	key := base
	for n := 2; ; n++ {
		owner, taken := k.taken[key]
		if !taken || owner == name && owner != "" {
			k.taken[key] = name
			return key
		}
		key = base + "-" + strconv.Itoa(n)
	}
}

// servers returns the URLs without their secrets.
func servers(urls []string) (map[string]server, error) {
	list := map[string]server{}
	for i, one := range urls {
		if !strings.Contains(one, "://") {
			one = "nats://" + one
		}
		parsed, err := url.Parse(strings.TrimSpace(one))
		if err != nil || parsed.Hostname() == "" {
			return nil, maintenance.Refuse("nats-url", "server %d cannot be read as a URL", i+1) // it may hold a password
		}
		s := server{Host: parsed.Host, Protocol: "nats"}
		switch parsed.Scheme {
		case "tls":
			s.Description = "Over TLS."
		case "ws", "wss":
			s.Protocol = parsed.Scheme
		}
		if parsed.Port() == "" && s.Protocol == "nats" {
			s.Host += ":4222"
		}
		list["nats-"+strconv.Itoa(i+1)] = s
	}
	return list, nil
}

// headers are those of every message.
func headers() map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, h := range message.Headers() {
		one := map[string]any{"type": "string", "description": h.Says}
		if h.Pattern != "" {
			one["pattern"] = h.Pattern
		}
		properties[h.Name] = one
		if h.Always {
			required = append(required, h.Name)
		}
	}
	slices.Sort(required)
	return map[string]any{"type": "object", "required": required, "properties": properties}
}

// ofSchemasByName are the keywords whose members are schemas by names of others' choosing.
var ofSchemasByName = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}

// verbatim are the keywords whose values are values, not schemas.
var verbatim = []string{"enum", "const", "default", "examples"}

// rooted makes references within a schema ones within the document in which it lies at root.
func rooted(schema any, root string) any {
	switch s := schema.(type) {
	case []any:
		for i := range s {
			s[i] = rooted(s[i], root)
		}
	case map[string]any:
		for keyword, rule := range s {
			ref, isText := rule.(string)
			members, isObject := rule.(map[string]any)
			switch {
			case keyword == "$ref" && isText && (ref == "#" || strings.HasPrefix(ref, "#/")):
				s[keyword] = root + strings.TrimPrefix(ref, "#")
			case slices.Contains(ofSchemasByName, keyword) && isObject:
				for name := range members {
					members[name] = rooted(members[name], root)
				}
			case !slices.Contains(verbatim, keyword):
				s[keyword] = rooted(rule, root)
			}
		}
	}
	return schema
}
