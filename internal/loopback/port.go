package loopback

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Host is the address that every server started by Postrider listens on.
const Host = "127.0.0.1"

// Linux hands out source ports from 32768 up and the IANA range starts at 49152; well-known
// database and broker ports lie below 20000.
const (
	lowestPort  = 20000
	highestPort = 32000
	// blockSize is how many ports in a row belong to one process at a time: servers that start at the same moment in
	// several processes rarely meet, and those of one process never.
	blockSize = 100
	blocks    = (highestPort - lowestPort) / blockSize
	attempts  = 2 * blockSize
)

// ErrNoPort says that no free port was found. It comes with the last reason.
var ErrNoPort = errors.New("loopback: no free port")

var block struct {
	sync.Mutex

	number, left int
}

// draw returns the next port of the block.
func draw() int {
	block.Lock()
	defer block.Unlock()
	if block.left == 0 {
		block.number = (block.number + 1 + rand.IntN(blocks-1)) % blocks // another one
		block.left = blockSize
	}
	block.left--
	return lowestPort + block.number*blockSize + block.left
}

// FreePort returns a TCP port between 20000 and 31999 on which nothing listened on 127.0.0.1 a moment ago.
func FreePort(ctx context.Context) (int, error) {
	var last error
	for range attempts {
		if ctx.Err() != nil {
			return 0, fmt.Errorf("loopback: pick a port: %w", ctx.Err())
		}
		port := draw()
		if last = Probe(ctx, port); last == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("%w: %w", ErrNoPort, last)
}

// Probe returns an error if somebody listens on that port of 127.0.0.1.
func Probe(ctx context.Context, port int) error {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", net.JoinHostPort(Host, strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	if err := listener.Close(); err != nil {
		return fmt.Errorf("loopback: close the probe: %w", err)
	}
	return nil
}
