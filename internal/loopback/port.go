package loopback

import (
	"cmp"
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

// Linux hands out source ports from 32768 up and the IANA range starts at 49152; well-known database and broker ports lie below 20000.
const (
	lowestPort  = 20000
	highestPort = 32000
	// blockSize ports in a row belong to one process. It listens on the first of them for life, so that no other process
	// gives out the port of a server that is being restarted.
	blockSize = 100
	blocks    = (highestPort - lowestPort) / blockSize
	attempts  = 2 * blockSize
)

// ErrNoPort means that no free port was found. It comes with the last reason.
var ErrNoPort = errors.New("loopback: no free port")

var block struct {
	sync.Mutex

	first, left int
	marks       []net.Listener // of this process's ownership
}

// draw returns the next port of the block.
func draw(ctx context.Context) int {
	block.Lock()
	defer block.Unlock()
	for range blocks { // or the last one is shared
		if block.left > 0 {
			break
		}
		block.first = lowestPort + rand.IntN(blocks)*blockSize
		if mark, err := listen(ctx, block.first); err == nil {
			block.marks, block.left = append(block.marks, mark), blockSize-1
		}
	}
	block.left = cmp.Or(block.left, blockSize-1)
	block.left--
	return block.first + block.left + 1
}

// FreePort returns a TCP port between 20000 and 31999 on which nothing listened on 127.0.0.1 a moment ago.
func FreePort(ctx context.Context) (int, error) {
	var last error
	for range attempts {
		if ctx.Err() != nil {
			return 0, fmt.Errorf("loopback: pick a port: %w", ctx.Err())
		}
		port := draw(ctx)
		if last = Probe(ctx, port); last == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("%w: %w", ErrNoPort, last)
}

// Probe returns an error if somebody listens on that port of 127.0.0.1.
func Probe(ctx context.Context, port int) error {
	listener, err := listen(ctx, port)
	if err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	if err := listener.Close(); err != nil {
		return fmt.Errorf("loopback: close the probe: %w", err)
	}
	return nil
}

func listen(ctx context.Context, port int) (net.Listener, error) {
	var config net.ListenConfig
	return config.Listen(ctx, "tcp", net.JoinHostPort(Host, strconv.Itoa(port)))
}
