package deployment_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/outbox"
)

const permissions = "deploy/nats/permissions.conf"

// restricted is a NATS server with the users of permissions.conf, the stream, and its durable consumer.
type restricted struct {
	url string
	js  jetstream.JetStream // of the admin
}

func newRestricted(t *testing.T, change func(*server.Permissions), more ...func(*server.Options)) restricted {
	t.Helper()
	for _, name := range []string{"RELAY", "PRODUCER", "READER", "ADMIN"} {
		t.Setenv(name+"_PASSWORD", "secret")
	}
	options, err := server.ProcessConfigFile(filepath.Join(root, permissions))
	if err != nil {
		t.Fatal(err)
	}
	options.Host, options.Port, options.NoSigs, options.NoLog = "127.0.0.1", server.RANDOM_PORT, true, true
	options.JetStream, options.StoreDir = true, t.TempDir()
	for _, u := range options.Users {
		if u.Username == "relay" && change != nil {
			change(u.Permissions)
		}
	}
	for _, m := range more {
		m(options)
	}
	s, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the NATS server does not start")
	}
	r := restricted{url: s.ClientURL()}
	if r.js, err = jetstream.New(r.connect(t, "admin")); err != nil {
		t.Fatal(err)
	}
	stream, err := r.js.CreateStream(t.Context(), natstest.StreamConfig(1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "reader", FilterSubject: "events.>"}); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r restricted) as(user string) string {
	return strings.Replace(r.url, "nats://", "nats://"+user+":secret@", 1)
}

// environment is a worker's.
func (r restricted) environment(c *clustertest.Cluster) []string {
	return []string{"DATABASE_URL=" + c.DatabaseURL, "NATS_URL=" + r.as("relay"), "POSTRIDER_NATS_INBOX_PREFIX=_INBOX_relay"}
}

// context is a worker's, as the nats command line has it.
func (r restricted) context(t *testing.T, domain string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "relay.json")
	text := fmt.Sprintf(`{"url": %q, "user": "relay", "password": "secret", "inbox_prefix": "_INBOX_relay", "jetstream_domain": %q}`, r.url, domain)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func (r restricted) connect(t *testing.T, user string) *nats.Conn {
	t.Helper()
	return r.connectWith(t, user, "_INBOX_"+user)
}

func (r restricted) connectWith(t *testing.T, user, inbox string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(r.as(user), nats.CustomInboxPrefix(inbox), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		t.Errorf("%s: %v", user, err)
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// The rights suffice, with batches and without: workers take over from each other, ring, publish; a producer rings; a consumer reads.
func TestRightsInNATSSuffice(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	t.Run("verify", verifies)
	audits(t)
	for _, way := range []struct { //nolint:paralleltest // one at a time
		name     string
		oneByOne bool
		domain   string
	}{
		{name: "in batches"},
		{name: "one by one", oneByOne: true},
		{name: "in a domain", domain: "hub"}, // its servers know $JS.hub.API as $JS.API when they look at rights
	} {
		t.Run(way.name, func(t *testing.T) {
			r := newRestricted(t, nil, func(o *server.Options) { o.JetStreamDomain = way.domain })
			config := natstest.StreamConfig(1)
			config.AllowAtomicPublish = !way.oneByOne
			if _, err := r.js.UpdateStream(t.Context(), config); err != nil {
				t.Fatal(err)
			}
			c := clustertest.New(t, clustertest.Config{Partitions: 4, NATS: natstest.Attach(r.as("admin")), NoStream: true})
			environment := r.environment(c)
			if way.domain != "" {
				environment = []string{"DATABASE_URL=" + c.DatabaseURL, "POSTRIDER_NATS_CONTEXT=" + r.context(t, way.domain)}
			}
			first := clustertest.Launch(t, "first", environment, "run", "--http-addr=127.0.0.1:0")
			c.Backlog(t, 50)
			c.WaitDrained(t)
			second := clustertest.Launch(t, "second", environment, "run", "--http-addr=127.0.0.1:0")
			second.WaitLog(t, "msg=monitor")
			first.Signal(t, syscall.SIGTERM)
			if status := first.Exit(t); status != 0 {
				t.Errorf("the first worker ended with %d", status)
			}
			c.Backlog(t, 50)
			producer := r.connect(t, "producer")
			if err := producer.Publish(outbox.BellSubject("public"), nil); err != nil {
				t.Error(err)
			}
			if err := producer.FlushTimeout(clustertest.Patience); err != nil {
				t.Error(err)
			}
			c.WaitDrained(t)
			if n := r.read(t, 100); n != 100 {
				t.Errorf("the consumer received %d messages, want 100", n)
			}
			for _, p := range []*clustertest.Process{first, second} {
				if strings.Contains(p.Stderr(), "Permissions Violation") || strings.Contains(p.Stderr(), "level=ERROR") {
					t.Errorf("a right is missing: %s", p.Stderr())
				}
			}
		})
	}
}

// Without the right to purge a worker says once that records stay, and delivers; with it they go.
func TestRecordsGoWhereTheStreamMayBePurged(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	for _, given := range []bool{false, true} {
		r := newRestricted(t, func(p *server.Permissions) {
			if given {
				p.Publish.Allow = append(p.Publish.Allow, "$JS.API.STREAM.PURGE.EVENTS")
			}
		})
		c := clustertest.New(t, clustertest.Config{Partitions: 2, NATS: natstest.Attach(r.as("admin")), NoStream: true})
		if _, err := r.js.Publish(t.Context(), "events.other.first", nil); err != nil { // the record that begins a stream stays
			t.Fatal(err)
		}
		w := clustertest.Launch(t, "worker", append(r.environment(c), "POSTRIDER_KEEP_RECORDS=50ms"), "run", "--http-addr=off", "--batch-size=1", "--ack-timeout=1s")
		c.Backlog(t, 50)
		c.WaitDrained(t)
		clustertest.Until(t, "it is known what becomes of records", func(ctx context.Context) (bool, error) {
			if !given {
				return strings.Contains(w.Stderr(), "partitions trim"), nil
			}
			stream, err := r.js.Stream(ctx, natstest.StreamName)
			if err != nil {
				return false, err
			}
			info, err := stream.Info(ctx, jetstream.WithSubjectFilter("outbox.fence.>"))
			if err != nil {
				return false, err
			}
			left := 0
			for _, n := range info.State.Subjects {
				left += int(n)
			}
			return left == 2, nil
		}, w.Stderr)
		c.Backlog(t, 50)
		c.WaitDrained(t)
		w.Signal(t, syscall.SIGTERM)
		if status := w.Exit(t); status != 0 {
			t.Errorf("the worker ended with %d", status)
		}
		if n, want := strings.Count(w.Stderr(), "partitions trim"), map[bool]int{false: 1}[given]; n != want {
			t.Errorf("with the right %t it is said %d times, want %d: %s", given, n, want, w.Stderr())
		}
	}
}

// read receives and acknowledges messages as the user reader.
func (r restricted) read(t *testing.T, want int) int {
	t.Helper()
	js, err := jetstream.New(r.connect(t, "reader"))
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := js.Consumer(t.Context(), natstest.StreamName, "reader")
	if err != nil {
		t.Fatal(err)
	}
	messages, err := consumer.Fetch(want, jetstream.FetchMaxWait(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	received := 0
	for m := range messages.Messages() {
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
		received++
	}
	return received
}

func without(p *server.Permissions, subject string) {
	for _, part := range []*server.SubjectPermission{p.Publish, p.Subscribe} {
		part.Allow = slices.DeleteFunc(part.Allow, func(s string) bool { return s == subject })
	}
}

// Each right is needed: without it a worker is refused something.
func TestEachRightInNATSIsNeeded(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	for _, c := range []struct{ name, subject string }{ //nolint:paralleltest // one at a time
		{"events", "events.>"},
		{"fence", "outbox.fence.>"},
		{"bell", "outbox.bell.>"},
		{"info", "$JS.API.STREAM.INFO.EVENTS"},
		{"get", "$JS.API.STREAM.MSG.GET.EVENTS"},
		{"inbox", "_INBOX_relay.>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRestricted(t, func(p *server.Permissions) { without(p, c.subject) })
			cluster := clustertest.New(t, clustertest.Config{Partitions: 4, NATS: natstest.Attach(r.as("admin")), NoStream: true})
			cluster.Backlog(t, 5)
			worker := clustertest.Launch(t, "worker", r.environment(cluster), "run", "--http-addr=off", "--ack-timeout=500ms")
			clustertest.Until(t, "a right is missed", func(context.Context) (bool, error) {
				return strings.Contains(strings.ToLower(worker.Stderr()), "permissions violation"), nil
			}, worker.Stderr)
		})
	}
}

// The documents list the same subjects.
func TestDocumentedRightsInNATS(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, permissions))
	if err != nil {
		t.Fatal(err)
	}
	section := read(t, "docs/configuration.md")
	section = section[strings.Index(section, "## Rights in NATS"):strings.Index(section, "## Rights in PostgreSQL")]
	relay, _, _ := strings.Cut(string(text), "user: producer")
	for _, quoted := range regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(relay, -1) {
		if !strings.Contains(section, quoted[1]) {
			t.Errorf("docs/configuration.md does not list %s", quoted[1])
		}
	}
}
