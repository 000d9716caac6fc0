package inbox_test

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/testkit/natstest"
)

// A reader that may not hear answers for a while goes on when it may: the server has forgotten what it hears them by.
func TestAReaderHearsAnswersAgain(t *testing.T) {
	t.Parallel()
	users := func(p *server.Permissions) []*server.User {
		return []*server.User{{Username: "reader", Password: "reader", Permissions: p}, {Username: "admin", Password: "admin"}}
	}
	options := &server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true, Users: users(nil),
	}
	broker, err := server.NewServer(options.Clone())
	if err != nil {
		t.Fatal(err)
	}
	broker.Start()
	t.Cleanup(func() { broker.Shutdown(); broker.WaitForShutdown() })
	if !broker.ReadyForConnections(patience) {
		t.Fatal("the server does not start")
	}
	if address, is := broker.Addr().(*net.TCPAddr); is {
		options.Port = address.Port
	}
	as := func(user string) string { return fmt.Sprintf("nats://%s:%s@127.0.0.1:%d", user, user, options.Port) }
	r := newReading(t)
	r.server = natstest.Attach(as("admin"))
	r.server.Stream(t, 1)
	r.js = r.server.JetStream(t)
	r.publish(t, event("s", 1))
	nc, err := nats.Connect(as("reader"), nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	admin := r.js
	if r.js, err = jetstream.New(nc); err != nil {
		t.Fatal(err)
	}
	defer r.run(t, quick(), apply)()
	waitFor(t, r.pool, `SELECT count(*) = 1 FROM effects`)
	for _, permissions := range []*server.Permissions{{Subscribe: &server.SubjectPermission{Deny: []string{"_INBOX.>"}}}, nil} {
		changed := options.Clone()
		changed.Users = users(permissions)
		if err := broker.ReloadOptions(changed); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(patience); !errors.Is(nc.LastError(), nats.ErrPermissionViolation); {
			if time.Now().After(end) {
				t.Fatal("no right is missed")
			}
			<-time.After(time.Millisecond)
		}
	}
	r.js = admin
	r.publish(t, event("s", 2))
	waitFor(t, r.pool, `SELECT count(*) = 2 FROM effects`)
}
