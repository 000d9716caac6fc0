package wire_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/partition"
)

func TestABellIsHeardByAll(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, 1)
	var bells []*wire.Bell
	for range 3 {
		b, err := wire.NewBell(connect(t, server), "outbox.bell.test")
		if err != nil {
			t.Fatal(err)
		}
		bells = append(bells, b)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, b := range bells {
		if err := b.Flush(ctx); err != nil {
			t.Fatal(err)
		}
	}
	heard := func(want []partition.ID, all bool) {
		t.Helper()
		for _, b := range bells {
			var named []partition.ID
			var every bool
			for len(named) < len(want) || every != all {
				select {
				case <-b.Rung():
				case <-ctx.Done():
					t.Fatalf("a bell heard %v, %t; want %v, %t", named, every, want, all)
				}
				more, e := b.Heard()
				named, every = append(named, more...), every || e
			}
			if slices.Sort(named); !slices.Equal(named, want) {
				t.Errorf("a bell heard %v, want %v", named, want)
			}
		}
	}
	bells[0].Ring()
	heard(nil, true)
	ring := func(body []byte) {
		t.Helper()
		if err := connect(t, server).Publish("outbox.bell.test", body); err != nil {
			t.Fatal(err)
		}
	}
	ring(outbox.BellBody(outbox.Appended{Partition: 300, Enqueued: true}, outbox.Appended{Partition: 7, Enqueued: true}))
	heard([]partition.ID{7, 300}, false)
	ring([]byte("odd"))
	heard(nil, true)
}

// A doorbell that the server refuses is told of once for each right, with its subject and the cure, however often it is refused.
func TestARefusedDoorbellIsToldOfOnce(t *testing.T) {
	t.Parallel()
	deaf := &server.Permissions{Subscribe: &server.SubjectPermission{Deny: []string{"outbox.bell.>"}}, Publish: &server.SubjectPermission{Deny: []string{"outbox.bell.>", "elsewhere"}}}
	options := &server.Options{Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true, Users: []*server.User{{Username: "relay", Password: "relay", Permissions: deaf}}}
	s, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	log := make(records, 1000)
	nc, err := wire.Connect("nats://relay:relay@"+s.Addr().String(), t.Name(), slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	bell, err := wire.NewBell(nc, "outbox.bell.test")
	if err != nil {
		t.Fatal(err)
	}
	const cured = "grant this user the right; polls find work meanwhile"
	if n := log.await(t, "missing=subscribe subject=outbox.bell.test", cured); n != 1 {
		t.Errorf("%d records tell that nobody may listen, want 1", n)
	}
	if err := nc.ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	log.await(t, "reconnected to NATS", "")
	bell.Ring()
	bell.Ring()
	if err := nc.Publish("elsewhere", nil); err != nil { // told of behind all that
		t.Fatal(err)
	}
	if n := log.await(t, `Publish to \"elsewhere`, "outbox.bell.test"); n != 1 {
		t.Errorf("%d more records tell of the doorbell, want 1, of ringing it", n)
	}
}
