package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/natspub/wire"
)

// natsFlags say where the broker is and how to log in. The context fills the empty ones.
type natsFlags struct {
	NatsContext string `help:"Context of the nats command line, by its name or its file: where NATS is, how to log in, how to address JetStream." placeholder:"NAME|FILE"`
	NatsURL     string `help:"NATS URLs, separated by commas; without it the context's, or nats://127.0.0.1:4222." placeholder:"URL" env:"POSTRIDER_NATS_URL,NATS_URL"`
	NatsCreds   string `help:"File with NATS credentials (JWT and key)." placeholder:"FILE" type:"existingfile"`
	NatsCA      string `help:"File with the certificates that sign the NATS servers'." placeholder:"FILE" type:"existingfile"`

	NatsInboxPrefix string `help:"Begin of the subjects on which NATS answers, of which the user may subscribe what is below it; without it the context's, or _INBOX." placeholder:"SUBJECT"`

	// overruled names the flags that were set in a place of lower rank than the context's.
	overruled []string
}

// AfterApply finds the settings that a context of a higher rank overrules: command line, then environment, then file.
func (f *natsFlags) AfterApply(ctx *kong.Context) error {
	f.overruled = nil
	of := rank(ctx, "nats-context")
	for _, name := range []string{"nats-url", "nats-creds", "nats-ca", "nats-inbox-prefix"} {
		if f.NatsContext != "" && rank(ctx, name) < of {
			f.overruled = append(f.overruled, name)
		}
	}
	return nil
}

// counted returns the flags without the overruled ones.
func (f natsFlags) counted() natsFlags {
	for name, value := range map[string]*string{
		"nats-url": &f.NatsURL, "nats-creds": &f.NatsCreds, "nats-ca": &f.NatsCA, "nats-inbox-prefix": &f.NatsInboxPrefix,
	} {
		if slices.Contains(f.overruled, name) {
			*value = ""
		}
	}
	return f
}

// broker holds the address and options of NATS, and the prefix of JetStream's subjects.
type broker struct {
	url       string
	options   []nats.Option
	apiPrefix string
}

// broker joins flags and context; at equal rank flags win. It reads all files.
func (f natsFlags) broker() (broker, error) {
	f = f.counted()
	c, from := natsContext{}, ""
	if f.NatsContext != "" {
		from = "--nats-context " + f.NatsContext + ": "
		if err := c.load(f.NatsContext); err != nil {
			return broker{}, fmt.Errorf("%w: %s%w", errRefused, from, err)
		}
	}
	if f.NatsCreds != "" {
		c.natsLogin = natsLogin{Creds: f.NatsCreds}
	}
	c.CA, c.InboxPrefix = cmp.Or(f.NatsCA, c.CA), cmp.Or(f.NatsInboxPrefix, c.InboxPrefix)
	options, err := c.options()
	if err != nil {
		return broker{}, fmt.Errorf("%w: %s%w", errRefused, from, err)
	}
	if c.Domain != "" {
		c.APIPrefix = "$JS." + c.Domain + ".API"
	}
	return broker{url: cmp.Or(f.NatsURL, c.URL, nats.DefaultURL), options: options, apiPrefix: c.APIPrefix}, nil
}

// connect also returns the prefix of JetStream's subjects.
func (f natsFlags) connect(name string, log *slog.Logger, more ...nats.Option) (nc *nats.Conn, apiPrefix string, err error) {
	b, err := f.broker()
	if err != nil {
		return nil, "", err
	}
	nc, err = wire.Connect(b.url, name, log, append(b.options, more...)...)
	return nc, b.apiPrefix, err
}

// natsContext is a context of the nats command line. That program's own package is not used: it links an expression language, runs
// other programs (op, nsc), and ignores unknown settings.
type natsContext struct {
	natsLogin

	URL         string `json:"url"`
	Cert        string `json:"cert"`
	Key         string `json:"key"`
	CA          string `json:"ca"`
	TLSFirst    bool   `json:"tls_first"`
	InboxPrefix string `json:"inbox_prefix"`
	Domain      string `json:"jetstream_domain"`
	APIPrefix   string `json:"jetstream_api_prefix"`

	// Contexts with these are refused.
	SocksProxy string `json:"socks_proxy"`
	NSC        string `json:"nsc"`
	CertStore  string `json:"windows_cert_store"`

	// These are ignored.
	Name             any `json:"name"`
	Description      any `json:"description"`
	ColorScheme      any `json:"color_scheme"`
	EventPrefix      any `json:"jetstream_event_prefix"`
	CertStoreBy      any `json:"windows_cert_match_by"`
	CertStoreMatch   any `json:"windows_cert_match"`
	CertStoreCAMatch any `json:"windows_ca_certs_match"`
}

// natsLogin holds one login: user, token, credentials, key or JWT.
type natsLogin struct {
	User     string `json:"user"`
	Password string `json:"password"`
	Token    string `json:"token"`
	Creds    string `json:"creds"`
	NKey     string `json:"nkey"`
	UserJWT  string `json:"user_jwt"`
	UserSeed string `json:"user_seed"`
}

// load reads a context by its name, or from a file where name has a slash or ends in .json.
func (c *natsContext) load(name string) error {
	home, _ := os.UserHomeDir() // without a home, no path lies below it
	file, folder := expanded(name, home), ""
	if !strings.Contains(name, "/") && filepath.Ext(name) != ".json" {
		folder = filepath.Join(cmp.Or(os.Getenv("XDG_CONFIG_HOME"), filepath.Join(home, ".config")), "nats", "context")
		file = filepath.Join(folder, name+".json")
	}
	text, err := os.ReadFile(file)
	if folder != "" && errors.Is(err, fs.ErrNotExist) {
		there, _ := filepath.Glob(filepath.Join(folder, "*.json"))
		for i, path := range there {
			there[i] = strings.TrimSuffix(filepath.Base(path), ".json")
		}
		return fmt.Errorf("%s has no such context; it has: %s", folder, cmp.Or(strings.Join(there, ", "), "none"))
	}
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields() // unknown settings may change the connection
	if err := decoder.Decode(c); err != nil {
		return fmt.Errorf("%s: %w; correct or remove that", file, err)
	}
	if err := c.check(); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, path := range []*string{&c.Creds, &c.NKey, &c.Cert, &c.Key, &c.CA} {
		*path = expanded(*path, home)
	}
	for _, value := range []*string{&c.Password, &c.Token, &c.UserJWT, &c.UserSeed} {
		if *value, err = secret(*value, home); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// expanded replaces the variables of a path, and ~ at its start.
func expanded(path, home string) string {
	path = os.ExpandEnv(strings.TrimPrefix(path, "file://"))
	if path == "~" || strings.HasPrefix(path, "~/") {
		return home + path[1:]
	}
	return path
}

// secret returns a context's value, or the content of the variable or file that it names.
func secret(text, home string) (string, error) {
	if name, is := strings.CutPrefix(text, "env://"); is {
		value := os.Getenv(name)
		if value == "" {
			return "", fmt.Errorf("variable %s is empty or not set", name)
		}
		return value, nil
	}
	if strings.HasPrefix(text, "file://") {
		content, err := os.ReadFile(expanded(text, home))
		return strings.TrimRight(string(content), "\r\n"), err
	}
	return text, nil
}

// elsewhere matches secrets that the nats command line decodes or has other programs read.
var elsewhere = regexp.MustCompile(`^(op|nsc)://|^data:`)

// check refuses contradictions and unsupported settings.
func (c *natsContext) check() error {
	for _, s := range [][2]string{{"socks_proxy", c.SocksProxy}, {"nsc", c.NSC}, {"windows_cert_store", c.CertStore}} {
		if s[1] != "" {
			return fmt.Errorf("%s is not supported; use a context without it", s[0])
		}
	}
	for _, s := range [][2]string{
		{"creds", c.Creds},
		{"nkey", c.NKey},
		{"cert", c.Cert},
		{"key", c.Key},
		{"ca", c.CA},
		{"password", c.Password},
		{"token", c.Token},
		{"user_jwt", c.UserJWT},
		{"user_seed", c.UserSeed},
	} {
		if elsewhere.MatchString(s[1]) {
			return fmt.Errorf("%s is no file and no plain value (op:, nsc: and data: are not supported); write it to a file and name that", s[0])
		}
	}
	var logins []string
	for _, s := range [][2]string{{"user", c.User}, {"token", c.Token}, {"creds", c.Creds}, {"nkey", c.NKey}, {"user_jwt", c.UserJWT}} {
		if s[1] != "" {
			logins = append(logins, s[0])
		}
	}
	if len(logins) > 1 {
		return fmt.Errorf("%s: only one of them can log in; remove the others", strings.Join(logins, " and "))
	}
	for _, s := range [][4]string{
		{"password", c.Password, "user", c.User},
		{"user_seed", c.UserSeed, "user_jwt", c.UserJWT},
		{"cert", c.Cert, "key", c.Key},
		{"key", c.Key, "cert", c.Cert},
	} {
		if s[1] != "" && s[3] == "" {
			return fmt.Errorf("%s needs %s beside it", s[0], s[2])
		}
	}
	c.APIPrefix = strings.TrimSuffix(c.APIPrefix, ".")
	switch {
	case c.Domain != "" && c.APIPrefix != "":
		return errors.New("jetstream_domain and jetstream_api_prefix exclude each other")
	case c.Domain != "" && (!fixedSubject.MatchString(c.Domain) || strings.Contains(c.Domain, ".")):
		return fmt.Errorf("jetstream_domain must be one token without wildcards, got %q", c.Domain)
	case c.APIPrefix != "" && !fixedSubject.MatchString(c.APIPrefix):
		return fmt.Errorf("jetstream_api_prefix must be tokens without wildcards, got %q", c.APIPrefix)
	}
	return nil
}

var (
	// inboxPrefix matches the begin of a subject: tokens without wildcards.
	inboxPrefix = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)
	// fixedSubject matches subjects without wildcards.
	fixedSubject = regexp.MustCompile(`^[^\s.*>]+(\.[^\s.*>]+)*$`)
)

// options returns the connection's options, after a try of each: the files that they read exist.
func (c *natsContext) options() (options []nats.Option, err error) {
	if c.InboxPrefix != "" {
		if !inboxPrefix.MatchString(c.InboxPrefix) {
			return nil, fmt.Errorf("--nats-inbox-prefix (inbox_prefix) must be tokens of letters, digits, _ and -, got %q", c.InboxPrefix)
		}
		options = append(options, nats.CustomInboxPrefix(c.InboxPrefix))
	}
	var tried nats.Options
	add := func(setting string, option nats.Option) {
		if refused := option(&tried); refused != nil && err == nil {
			err = fmt.Errorf("%s: %w", setting, refused)
		}
		options = append(options, option)
	}
	switch {
	case c.User != "":
		add("user", nats.UserInfo(c.User, c.Password))
	case c.Token != "":
		add("token", nats.Token(c.Token))
	case c.Creds != "":
		add("creds (--nats-creds)", nats.UserCredentials(c.Creds))
	case c.NKey != "":
		key, err := nats.NkeyOptionFromSeed(c.NKey)
		if err != nil {
			return nil, fmt.Errorf("nkey: %w", err)
		}
		add("nkey", key)
	case c.UserSeed != "":
		add("user_seed", nats.UserJWTAndSeed(c.UserJWT, c.UserSeed))
	case c.UserJWT != "": // a bearer token signs nothing
		add("user_jwt", nats.UserJWT(func() (string, error) { return c.UserJWT, nil }, func([]byte) ([]byte, error) { return nil, nil }))
	}
	if c.Cert != "" {
		add("cert, key", nats.ClientCert(c.Cert, c.Key))
	}
	if c.CA != "" {
		add("ca (--nats-ca)", nats.RootCAs(c.CA))
	}
	if c.TLSFirst {
		add("tls_first", nats.TLSHandshakeFirst())
	}
	return options, err
}

type streamFlag struct {
	Stream string `help:"JetStream stream that holds the events; without it what is stored with the outbox, or EVENTS." placeholder:"NAME"`
}

// streamFlags say to which stream workers publish. The database has the values left out.
type streamFlags struct {
	streamFlag
	Subject string `help:"Template of the subjects; fields {topic} {type} {partition} {stream} {tenant}; without it what is stored with the outbox, or events.{topic}.{type}." placeholder:"TEMPLATE"`
}

func (f *streamFlags) complete(info outboxInfo) {
	f.Stream, f.Subject = cmp.Or(f.Stream, info.Stream, streams.DefaultStream), cmp.Or(f.Subject, info.Subject, wire.DefaultSubject)
}

// Validate refuses an empty environment variable, which is no wish for the default; kong calls it once the command line is read.
func (f streamFlag) Validate(ctx *kong.Context) error {
	if f.Stream == "" {
		if rank(ctx, "stream") > fromDefault {
			return errors.New("--stream must name a stream; leave it out for the one that is stored, or EVENTS")
		}
		return nil
	}
	if strings.ContainsAny(f.Stream, " \t\r\n.*>/\\") {
		return fmt.Errorf("--stream must be a name without blanks, '.', '*', '>' and slashes, got %q", f.Stream)
	}
	return nil
}

type createFlags struct {
	CreateStream   bool   `help:"Create the stream when it is missing."`
	StreamReplicas int    `help:"Replicas of a created stream: 1, 3 or 5." default:"1"`
	StreamStorage  string `help:"Storage of a created stream: ${enum}." enum:"file,memory" default:"file"`
}

func (f createFlags) validate() error {
	if r := f.StreamReplicas; r != 1 && r != 3 && r != 5 {
		return fmt.Errorf("%w: --stream-replicas must be 1, 3 or 5, got %d", errRefused, r)
	}
	return nil
}
