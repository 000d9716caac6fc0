package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// serve starts a NATS server with JetStream of its own, from the text of a configuration.
func serve(t *testing.T, configuration string, changes ...func(*server.Options)) *server.Server {
	t.Helper()
	options := &server.Options{}
	if err := options.ProcessConfigString(configuration); err != nil {
		t.Fatal(err)
	}
	options.Host, options.Port, options.NoSigs, options.NoLog = "127.0.0.1", server.RANDOM_PORT, true, true
	options.JetStream, options.StoreDir = true, t.TempDir()
	for _, change := range changes {
		change(options)
	}
	s, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(clustertest.Patience) {
		t.Fatal("the server is not ready")
	}
	return s
}

// stored is how many messages the streams of a server hold.
func stored(t *testing.T, s *server.Server) (n uint64) {
	t.Helper()
	all, err := s.Jsz(&server.JSzOptions{Accounts: true, Streams: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, account := range all.AccountDetails {
		for _, stream := range account.Streams {
			n += stream.State.Msgs
		}
	}
	return n
}

// pems writes a certificate of this machine that signs itself, and its key.
func pems(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		BasicConstraintsValid: true, IsCA: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pemFile(t, "CERTIFICATE", signed), pemFile(t, "PRIVATE KEY", secret)
}

func pemFile(t *testing.T, kind string, content []byte) string {
	t.Helper()
	return writeFile(t, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content})))
}

// keyPair is a new one with its seed and its public key.
func keyPair(t *testing.T, create func() (nkeys.KeyPair, error)) (pair nkeys.KeyPair, seed []byte, public string) {
	t.Helper()
	pair, err := create()
	if err != nil {
		t.Fatal(err)
	}
	if seed, err = pair.Seed(); err != nil {
		t.Fatal(err)
	}
	if public, err = pair.PublicKey(); err != nil {
		t.Fatal(err)
	}
	return pair, seed, public
}

// serveOperator starts a server that knows accounts and users by what an operator signed, and returns a user's JWT and seed.
func serveOperator(t *testing.T) (s *server.Server, token string, seed []byte) {
	t.Helper()
	operator, _, trusted := keyPair(t, nkeys.CreateOperator)
	account, _, public := keyPair(t, nkeys.CreateAccount)
	_, _, system := keyPair(t, nkeys.CreateAccount)
	_, seed, user := keyPair(t, nkeys.CreateUser)
	resolver := &server.MemAccResolver{}
	for _, key := range []string{public, system} {
		claims := jwt.NewAccountClaims(key)
		if key == public {
			claims.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit}
		}
		signed, err := claims.Encode(operator)
		if err != nil {
			t.Fatal(err)
		}
		if err := resolver.Store(key, signed); err != nil {
			t.Fatal(err)
		}
	}
	token, err := jwt.NewUserClaims(user).Encode(account)
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, "server_name: operated", func(o *server.Options) {
		o.TrustedKeys, o.AccountResolver, o.SystemAccount = []string{trusted}, resolver, system
	}), token, seed
}

// imported is a server where an account has the stream, and the relay's account imports its API under a prefix of its own.
const imported = `
accounts {
  STREAMS: {
    jetstream: enabled
    users: [{user: owner, password: secret}]
    exports: [{service: "$JS.API.>", response_type: stream}, {service: "events.>"}, {service: "outbox.fence.>"}, {service: "again.>"}]
  }
  RELAY: {
    users: [{user: relay, password: secret}]
    imports: [
      {service: {account: STREAMS, subject: "$JS.API.>"}, to: "acme.js.>"}, {service: {account: STREAMS, subject: "events.>"}}
      {service: {account: STREAMS, subject: "outbox.fence.>"}}, {service: {account: STREAMS, subject: "again.>"}}
    ]
  }
}`

// rightsUnder are those of a worker that makes its stream and of a subscriber, where JetStream answers under that prefix.
func rightsUnder(api string) string {
	return strings.ReplaceAll(`users: [{user: relay, password: secret, permissions: {
		publish: ["events.>", "outbox.fence.>", "outbox.bell.>", "API.STREAM.INFO.EVENTS", "API.STREAM.MSG.GET.EVENTS", "API.STREAM.CREATE.EVENTS", "API.CONSUMER.>"]
		subscribe: ["outbox.bell.>", "answers.relay.>"]
	}}]`, "API", api)
}

// serveLeaf starts a hub, and a leaf node of it with a JetStream of its own. Rights are those under the domain's prefix at the leaf node, and
// for its user at the hub.
func serveLeaf(t *testing.T) (hub, leaf *server.Server) {
	t.Helper()
	var options *server.Options
	hub = serve(t, "server_name: hub\njetstream {domain: hub}\nleafnodes {listen: \"127.0.0.1:-1\"}\nauthorization {"+rightsUnder("$JS.hub.API")+"}",
		func(o *server.Options) { options = o })
	leaf = serve(t, fmt.Sprintf("server_name: leaf\njetstream {domain: leaf}\nleafnodes {remotes: [{url: \"nats://relay:secret@127.0.0.1:%d\"}]}\nauthorization {%s}",
		options.LeafNode.Port, rightsUnder("$JS.hub.API")))
	nc, err := nats.Connect(leaf.ClientURL(), nats.UserInfo("relay", "secret"), nats.CustomInboxPrefix("answers.relay"))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := streams.JetStream(nc, "$JS.hub.API")
	if err != nil {
		t.Fatal(err)
	}
	clustertest.Until(t, "the leaf node reaches the hub", func(ctx context.Context) (bool, error) {
		_, err := js.Stream(ctx, streams.DefaultStream)
		return errors.Is(err, jetstream.ErrStreamNotFound), nil
	}, nil)
	return hub, leaf
}

// reach is a server with the context that one needs there.
type reach struct {
	context settingsOf
	home    *server.Server // that stores
	entry   *server.Server // that the program connects to; home where it is nil
}

// reaches are the ways to connect, log in and address JetStream. Each server wants its way, and refuses who comes without.
var reaches = map[string]func(t *testing.T) reach{
	"a token": func(t *testing.T) reach {
		t.Helper()
		return reach{settingsOf{"token": "file://" + writeFile(t, "t0ken\n")}, serve(t, "authorization {token: t0ken}"), nil}
	},
	"an nkey": func(t *testing.T) reach {
		t.Helper()
		_, seed, public := keyPair(t, nkeys.CreateUser)
		return reach{settingsOf{"nkey": writeFile(t, string(seed))}, serve(t, "authorization {users: [{nkey: "+public+"}]}"), nil}
	},
	"credentials": func(t *testing.T) reach {
		t.Helper()
		s, token, seed := serveOperator(t)
		creds, err := jwt.FormatUserConfig(token, seed)
		if err != nil {
			t.Fatal(err)
		}
		return reach{settingsOf{"creds": writeFile(t, string(creds))}, s, nil}
	},
	"a JWT and its seed": func(t *testing.T) reach {
		t.Helper()
		s, token, seed := serveOperator(t)
		return reach{settingsOf{"user_jwt": token, "user_seed": string(seed)}, s, nil}
	},
	"a client certificate": func(t *testing.T) reach {
		t.Helper()
		cert, key := pems(t)
		return reach{
			settingsOf{"ca": cert, "cert": cert, "key": key},
			serve(t, fmt.Sprintf("tls {cert_file: %q, key_file: %q, ca_file: %q, verify: true}", cert, key, cert)), nil,
		}
	},
	"TLS first": func(t *testing.T) reach {
		t.Helper()
		cert, key := pems(t)
		return reach{
			settingsOf{"ca": cert, "tls_first": true},
			serve(t, fmt.Sprintf("tls {cert_file: %q, key_file: %q, handshake_first: true}", cert, key)), nil,
		}
	},
	"a prefix of answers": func(t *testing.T) reach {
		t.Helper()
		return reach{settingsOf{"user": "relay", "password": "secret", "inbox_prefix": "answers.relay"}, serve(t, "authorization {"+rightsUnder("$JS.API")+"}"), nil}
	},
	"a domain behind a leaf node": func(t *testing.T) reach {
		t.Helper()
		hub, leaf := serveLeaf(t)
		return reach{settingsOf{"user": "relay", "password": "secret", "inbox_prefix": "answers.relay", "jetstream_domain": "hub"}, hub, leaf}
	},
	"another account's API": func(t *testing.T) reach {
		t.Helper()
		return reach{settingsOf{"user": "relay", "password": "secret", "jetstream_api_prefix": "acme.js"}, serve(t, imported), nil}
	},
}

// withEvents is a database with so many events to deliver.
func withEvents(t *testing.T, n int) string {
	t.Helper()
	database := pgtest.Migrated(t, 4)
	if _, err := pgtest.Pool(t, database).Exec(t.Context(), `SELECT outbox_append('s-' || n % 5, 'thing.done', '{}') FROM generate_series(1, $1::int) AS n`, n); err != nil {
		t.Fatal(err)
	}
	return database
}

// A worker makes the stream, delivers and is heard by a subscriber through a context, and by nothing less.
func TestEventsReachTheStreamByAContext(t *testing.T) {
	t.Parallel()
	for name, prepare := range reaches {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := prepare(t)
			if r.entry == nil {
				r.entry = r.home
			}
			r.context["url"] = "nats://" + r.entry.Addr().String()
			file := r.context.write(t)
			const events = 20
			code, _, stderr := call(t, "run", "--once", "--create-stream", "--http-addr=off", "--nats-context="+file, "--database-url="+withEvents(t, events))
			if code != exitOK || strings.Contains(stderr, "Violation") {
				t.Fatalf("the worker ended with %d: %s", code, stderr)
			}
			if n := stored(t, r.home); n <= events { // with records
				t.Errorf("%d messages are stored where they should be", n)
			}
			if n := stored(t, r.entry); r.entry != r.home && n != 0 {
				t.Errorf("%d messages are stored on the way", n)
			}
			code, _, stderr = call(t, "tail", "--all", "--count", fmt.Sprint("--limit=", events), "--nats-context="+file)
			if code != exitOK || !strings.Contains(stderr, fmt.Sprintf("received %d events", events)) {
				t.Errorf("tail ended with %d: %s", code, stderr)
			}
			complaint{[]string{"tail", "--all", "--limit=1", "--nats-url=nats://" + r.entry.Addr().String()}, exitFailed, nil}.check(t)
		})
	}
}

// Every command asks JetStream where the context says: the relay's account has none of its own.
func TestEveryCommandAsksTheAPIOfTheContext(t *testing.T) {
	t.Parallel()
	s := serve(t, imported)
	owner, err := nats.Connect(s.ClientURL(), nats.UserInfo("owner", "secret"))
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	js, err := streams.JetStream(owner, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "AGAIN", Subjects: []string{"again.>"}}); err != nil {
		t.Fatal(err)
	}
	const events = 20
	here := settingsOf{"url": s.ClientURL(), "user": "relay", "password": "secret", "jetstream_api_prefix": "acme.js."}
	on := []string{"--nats-context=" + here.write(t), "--database-url=" + withEvents(t, events)}
	for _, command := range []struct{ args, says string }{
		{"run --once --create-stream --http-addr=off", "published 20"},
		{"run --shadow --once --http-addr=off", "would have published 0"},
		{"doctor", "the stream takes fenced batches"},
		{"gaps detect", ""},
		{"replay --all --yes --shadow-prefix=again --shadow-stream=AGAIN", "published 20 events to again.>"},
		{"partitions resize 8 --yes --reason=test", "8 partitions were 4"},
	} {
		code, stdout, stderr := call(t, append(strings.Fields(command.args), on...)...)
		if code != exitOK || !strings.Contains(stdout, command.says) {
			t.Errorf("%s: status %d: %s%s", command.args, code, stdout, stderr)
		}
	}
	// Where nobody answers, the prefix is named.
	for wrong, name := range map[string]string{"jetstream_domain": "nowhere", "jetstream_api_prefix": "no.where"} {
		there := settingsOf{"url": s.ClientURL(), "user": "relay", "password": "secret", wrong: name}
		away := []string{"--nats-context=" + there.write(t), on[1]}
		if f := diagnose(t, exitFailed, away...)["stream"]; f.Level != levelError || !strings.Contains(f.Detail, name) || !strings.Contains(f.Detail, wrong) {
			t.Errorf("doctor says %+v", f)
		}
		complaint{append([]string{"run", "--once", "--http-addr=off"}, away...), exitFailed, []string{name, wrong, "leaf node"}}.check(t)
	}
}
