package wire_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/condition"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/internal/testkit/natstest"
)

// A password that was not encoded makes another URL of it; no part of it is in the error.
func TestConnectKeepsPasswordsToItself(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"nats://shop:hun#ter2@127.0.0.1:1", "nats://shop:hun/ter2@127.0.0.1:1", "nats://shop:hun?ter2@127.0.0.1:1", "nats://shop:4711#ter2@127.0.0.1:1",
		"shop:hun#ter2@127.0.0.1:1", "nats://127.0.0.1:1,nats://shop:4711/ter2@127.0.0.1:1", "nats://shop:%zzter2@127.0.0.1:1", "nats://hun#ter2@127.0.0.1:1",
	} {
		_, err := wire.Connect(url, "test", slog.New(slog.DiscardHandler))
		if !errors.Is(err, wire.ErrConfig) {
			t.Errorf("%s is not refused: %v", url, err)
			continue
		}
		for _, part := range []string{"hun", "ter2", "4711", "zz"} {
			if strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q is in the error: %v", url, part, err)
			}
		}
	}
	_, err := wire.Connect("nats://shop:hun%23ter2@127.0.0.1:1", "test", slog.New(slog.DiscardHandler))
	if err == nil || errors.Is(err, wire.ErrConfig) || strings.Contains(err.Error(), "ter2") {
		t.Errorf("an encoded password: %v", err)
	}
}

// records are the lines of a log.
type records chan string

func (r records) Write(b []byte) (int, error) {
	r <- string(b)
	return len(b), nil
}

// await reads up to the record that says it, and counts those that say told.
func (r records) await(t *testing.T, says, told string) (n int) {
	t.Helper()
	late := time.After(30 * time.Second)
	for {
		select {
		case one := <-r:
			if strings.Contains(one, told) {
				n++
			}
			if strings.Contains(one, says) {
				return n
			}
		case <-late:
			t.Fatalf("the log does not say %q", says)
		}
	}
}

// While the server is away the log says why it cannot be reached, and not with every attempt.
func TestTheLogSaysWhyConnectingAgainFails(t *testing.T) {
	t.Parallel()
	server, log, attempts := natstest.Start(t, 1), make(records, 1000), make(chan struct{}, 1000)
	nc, err := wire.Connect(server.URL(), t.Name(), slog.New(slog.NewTextHandler(log, nil)), nats.CustomReconnectDelay(func(int) time.Duration {
		attempts <- struct{}{}
		return 10 * time.Millisecond
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for range 2 { // each time anew
		for len(attempts) > 0 {
			<-attempts
		}
		if err := server.Cluster(t).StopNode(0); err != nil {
			t.Fatal(err)
		}
		const why = "cannot connect to NATS again"
		if n := log.await(t, why, why); n != 1 {
			t.Errorf("%d records say so", n)
		}
		for range 3 {
			<-attempts
		}
		if err := server.Cluster(t).RestartNode(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if n := log.await(t, "reconnected to NATS", why); n != 0 {
			t.Errorf("%d more records say so", n)
		}
	}
}

// A login that is refused for a while, as by a server that is being set up, is tried again and again, and told of once.
func TestALoginThatIsRefusedForAWhileIsTriedAgain(t *testing.T) {
	t.Parallel()
	options := &server.Options{Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true}
	admin, relay := &server.User{Username: "admin", Password: "admin"}, &server.User{Username: "relay", Password: "relay"}
	options.Users = []*server.User{admin, relay}
	s, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	let := func(users ...*server.User) {
		changed := options.Clone()
		changed.Users = users
		if err := s.ReloadOptions(changed); err != nil {
			t.Fatal(err)
		}
	}
	log, attempts, over := make(records, 1000), make(chan struct{}, 1000), make(chan struct{})
	nc, err := wire.Connect("nats://relay:relay@"+s.Addr().String(), t.Name(), slog.New(slog.NewTextHandler(log, nil)), nats.CustomReconnectDelay(func(int) time.Duration {
		attempts <- struct{}{}
		return 10 * time.Millisecond
	}), nats.ClosedHandler(func(*nats.Conn) { close(over) }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	let(admin)
	for range 5 {
		select {
		case <-attempts:
		case <-over:
			t.Fatalf("it tries no more: %v", nc.LastError())
		}
	}
	if got := wire.Reason(nc.LastError()); got != condition.BrokerRefused {
		t.Errorf("%v is called %q", nc.LastError(), got)
	}
	api := wire.NewStreamAPI(nc, "", "EVENTS", wire.DefaultAckTimeout)
	if _, err := api.Info(t.Context()); wire.Reason(err) != condition.BrokerRefused || !strings.Contains(err.Error(), "uthorization") {
		t.Errorf("where the login is refused a request says %q", err)
	}
	let(admin, relay)
	if n := log.await(t, "reconnected to NATS", "uthorization"); n != 1 {
		t.Errorf("%d records tell of the refusal, want 1", n)
	}
}

func TestURLsAreRedacted(t *testing.T) {
	t.Parallel()
	got := wire.Redact("nats://me:secret@a:4222,tls://token@b,c:4222")
	if got != "nats://***@a:4222,tls://***@b,c:4222" {
		t.Errorf("redacted to %s", got)
	}
}
