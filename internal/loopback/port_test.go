package loopback_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/postrider/postrider/internal/loopback"
)

func TestFreePortCanBeListenedOn(t *testing.T) {
	t.Parallel()
	port, err := loopback.FreePort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if port < 20000 || port > 31999 {
		t.Errorf("port %d is outside 20000 to 31999", port)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(loopback.Host, strconv.Itoa(port)))
	if err != nil {
		t.Fatalf("listen on the port given: %v", err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestFreePortHonoursTheContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := loopback.FreePort(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

// Nobody else takes a port of a block that another process has.
func TestABlockOfPortsIsOneProcesss(t *testing.T) {
	t.Parallel()
	port, err := loopback.FreePort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if first := port / 100 * 100; port == first || loopback.Probe(t.Context(), first) == nil {
		t.Errorf("of port %d's block another process can have port %d", port, first)
	}
}

func TestFreePortGivesNoneOutTwice(t *testing.T) {
	t.Parallel()
	const n = 100
	ports := make(chan int, n)
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			port, err := loopback.FreePort(t.Context())
			if err != nil {
				t.Error(err)
			}
			ports <- port
		})
	}
	all.Wait()
	close(ports)
	seen := map[int]bool{}
	for port := range ports {
		if seen[port] {
			t.Errorf("port %d twice", port)
		}
		seen[port] = true
	}
}
