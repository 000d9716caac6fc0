package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/partition"
)

// Defaults of the stream.
const (
	DefaultStream = "EVENTS"
	// DefaultControlPrefix begins the subjects of control messages; a consumer that filters the events' subjects never sees them.
	DefaultControlPrefix = "outbox.fence"
	bells                = "outbox.bell.>" // see outbox.BellSubject
)

// Control names an outbox's control subjects.
type Control struct {
	// Outbox keeps the control subjects of several outboxes on one stream apart.
	Outbox uuid.UUID
	// Prefix begins these subjects, as the outbox's tables have it. Defaults to DefaultControlPrefix.
	Prefix string
}

// Subjects lists the subjects of the fence, which a stream must capture.
func (c Control) Subjects() string { return cmp.Or(c.Prefix, DefaultControlPrefix) + ".>" }

// Subject returns a partition's control subject.
func (c Control) Subject(id partition.ID) string { return c.Base() + strconv.Itoa(int(id)) }

// Base begins this outbox's control subjects.
func (c Control) Base() string {
	return fmt.Sprintf("%s.%x.", cmp.Or(c.Prefix, DefaultControlPrefix), c.Outbox[:6])
}

// StreamConfig names the stream to publish to, and the settings for its creation on request.
type StreamConfig struct {
	// Name of the stream. Defaults to EVENTS.
	Name string
	// APIPrefix begins the subjects of JetStream's API: "$JS.NAME.API" for the domain NAME, or the account's import of another's API.
	// Defaults to "$JS.API".
	APIPrefix string
	// Subject is the template whose subjects the stream must capture.
	Subject wire.Subject
	// Control names the control messages' subjects, which a stream that is made captures, too.
	Control Control
	// Create makes the stream when it is missing; an existing one is never changed.
	Create bool
	// Replicas is 1, 3 or 5. Defaults to 1.
	Replicas int
	// Memory keeps the stream in memory instead of in files.
	Memory bool
	// Timeout bounds each call of the JetStream API, and the time a cluster may have no place for a stream. Defaults to 5 s.
	Timeout time.Duration
	// Logger defaults to slog.Default.
	Logger *slog.Logger
}

// ErrJetStreamOff means that a server, or an account, lacks JetStream.
var ErrJetStreamOff = errors.New("JetStream is not enabled")

func (c StreamConfig) withDefaults() StreamConfig {
	c.Name = cmp.Or(c.Name, DefaultStream)
	c.Replicas = cmp.Or(c.Replicas, 1)
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

// JetStream makes a client of JetStream under a prefix of its subjects, as StreamConfig has it.
func JetStream(nc *nats.Conn, apiPrefix string) (jetstream.JetStream, error) {
	js, err := jetstream.NewWithAPIPrefix(nc, cmp.Or(apiPrefix, wire.OwnAPI))
	if err != nil {
		return nil, fmt.Errorf("JetStream client: %w", err)
	}
	return js, nil
}

// EnsureStream checks the stream, or creates it when Create is set, and returns its info. Errors say what to do.
func EnsureStream(ctx context.Context, nc *nats.Conn, cfg StreamConfig) (*jetstream.StreamInfo, error) {
	cfg = cfg.withDefaults()
	if events, control := capture(cfg.Subject), cfg.Control.Subjects(); covers(events, control) || covers(control, events) {
		return nil, fmt.Errorf("%w: --subject %s: who reads %s would get the workers' control messages, %s, too; change it, or give the outbox a prefix of its own "+
			"(postrider migrate up --control-prefix)", wire.ErrConfig, cfg.Subject, events, control)
	}
	if events := capture(cfg.Subject); covers(events, bells) || covers(bells, events) {
		return nil, fmt.Errorf("%w: --subject %s: the stream would store the doorbells, %s, among the events; begin it otherwise", wire.ErrConfig, cfg.Subject, bells)
	}
	if version := nc.ConnectedServerVersion(); !versionAtLeast(version, 11) {
		return nil, fmt.Errorf("%w: nats-server %s stores messages of former owners; update it to 2.11 or newer", wire.ErrConfig, version)
	}
	js, err := JetStream(nc, cfg.APIPrefix)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	stream, err := js.Stream(ctx, cfg.Name)
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount),
		errors.Is(err, nats.ErrNoResponders):
		cure := "start nats-server with -js, or allow it for this account"
		if cfg.APIPrefix != "" {
			cure = "nobody answers there; correct jetstream_domain or jetstream_api_prefix in --nats-context, or see to the leaf node or the account's import"
		}
		return nil, fmt.Errorf("%w on %s, under %s: %s", ErrJetStreamOff, wire.Redact(nc.ConnectedUrl()), cmp.Or(cfg.APIPrefix, wire.OwnAPI), cure)
	case errors.Is(err, jetstream.ErrStreamNotFound) && cfg.Create:
		stream, err = cfg.create(ctx, js, cfg.stream(nc))
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another worker was faster
			stream, err = js.Stream(ctx, cfg.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("create stream %s: %w", cfg.Name, cfg.overlap(ctx, js, err))
		}
		cfg.Logger.Info("created stream", "stream", cfg.Name, "replicas", cfg.Replicas)
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, fmt.Errorf("%w: %s; create it with subjects %s and %s, or start once with --create-stream",
			wire.ErrStreamMissing, cfg.Name, capture(cfg.Subject), cfg.Control.Subjects())
	case err != nil:
		return nil, fmt.Errorf("look up stream %s: %w", cfg.Name, err)
	}
	info := stream.CachedInfo()
	return info, cfg.check(info)
}

// EnsureFenced does the same for publishers, and refuses a stream that keeps no fence.
func EnsureFenced(ctx context.Context, nc *nats.Conn, cfg StreamConfig) (*jetstream.StreamInfo, error) {
	info, err := EnsureStream(ctx, nc, cfg)
	if err == nil {
		err = Needs{Subject: cfg.Subject, Control: &cfg.Control}.Unmet(info.Config)
	}
	return info, err
}

// codeNoPeers means that a cluster lacks servers for a stream's replicas.
const codeNoPeers = 10005

// create has the stream created. A cluster that begins, that holds an election or lacks a server has no place for it yet.
func (c StreamConfig) create(ctx context.Context, js jetstream.JetStream, config jetstream.StreamConfig) (jetstream.Stream, error) {
	for tries := 1; ; tries++ {
		stream, err := js.CreateStream(ctx, config)
		refused, ok := errors.AsType[*jetstream.APIError](err)
		if !ok || refused.ErrorCode != codeNoPeers && refused.Code != http.StatusServiceUnavailable {
			return stream, err
		}
		if tries == 1 {
			c.Logger.Info("the cluster has no place for the stream yet", "stream", c.Name, "replicas", c.Replicas, "error", err)
		}
		if !wire.Pause(ctx, tries) {
			return nil, err
		}
	}
}

// capture returns the widest subject under the template's fixed beginning.
func capture(s wire.Subject) string {
	fixed, _, _ := strings.Cut(s.String(), ".{")
	if fixed == s.String() {
		return fixed
	}
	return fixed + ".>"
}

// overlap names, in a refusal for that reason, the stream that has the subjects.
func (c StreamConfig) overlap(ctx context.Context, js jetstream.JetStream, err error) error {
	const subjectsOverlap = 10065
	if api, ok := errors.AsType[*jetstream.APIError](err); !ok || api.ErrorCode != subjectsOverlap {
		return err
	}
	for subject, cure := range map[string]string{
		capture(c.Subject):   "give another --subject",
		c.Control.Subjects(): "give the outbox a prefix of its own (postrider migrate up --control-prefix)",
	} {
		if other, unknown := js.StreamNameBySubject(ctx, subject); unknown == nil {
			err = fmt.Errorf("stream %s has subjects of %s already: use that one (--stream %s), or %s: %w", other, subject, other, cure, err)
		}
	}
	return err
}

func (c StreamConfig) stream(nc *nats.Conn) jetstream.StreamConfig {
	storage := jetstream.FileStorage
	if c.Memory {
		storage = jetstream.MemoryStorage
	}
	return jetstream.StreamConfig{
		Name:               c.Name,
		Description:        "Events of an outbox, published by Postrider.",
		Subjects:           []string{capture(c.Subject), c.Control.Subjects()},
		Storage:            storage,
		Replicas:           c.Replicas,
		Retention:          jetstream.LimitsPolicy,
		Discard:            jetstream.DiscardNew,
		AllowAtomicPublish: versionAtLeast(nc.ConnectedServerVersion(), 12),
	}
}

// check refuses a stream that cannot take the messages.
func (c StreamConfig) check(info *jetstream.StreamInfo) error {
	if err := (Needs{Subject: c.Subject}).Unmet(info.Config); err != nil {
		return err
	}
	if info.Config.Discard == jetstream.DiscardOld && (info.Config.MaxMsgs > 0 || info.Config.MaxBytes > 0) {
		c.Logger.Warn("the stream drops its oldest messages when it is full, read or not; discard: new would refuse instead",
			"stream", c.Name)
	}
	if slices.ContainsFunc(info.Config.Subjects, func(s string) bool { return covers(s, bells) }) {
		c.Logger.Warn("the stream stores the doorbells, too, which nobody reads there: take them out of its subjects", "stream", c.Name, "subject", bells)
	}
	return nil
}

// covers reports whether every subject that matches filter matches subject too.
func covers(subject, filter string) bool {
	s, f := strings.Split(subject, "."), strings.Split(filter, ".")
	for i, token := range s {
		switch {
		case token == ">":
			return len(f) > i
		case i >= len(f):
			return false
		case token == "*":
			if f[i] == ">" {
				return false
			}
		case token != f[i]:
			return false
		}
	}
	return len(s) == len(f)
}

// versionAtLeast compares a server's version, such as "2.15.2" or "2.12.0-beta", with 2.minor.
func versionAtLeast(version string, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	a, errA := strconv.Atoi(parts[0])
	b, errB := strconv.Atoi(parts[1])
	return errA == nil && errB == nil && (a > 2 || a == 2 && b >= minor)
}
