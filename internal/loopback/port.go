package loopback

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Host is the address that every server started by Postrider listens on.
const Host = "127.0.0.1"

// Linux hands out source ports from 32768 up and the IANA range starts at 49152; well-known
// database and broker ports lie below 20000.
const (
	lowestPort  = 20000
	highestPort = 32000
	attempts    = 64
)

// ErrNoPort says that no free port was found. It comes with the last reason.
var ErrNoPort = errors.New("loopback: no free port")

// FreePort returns a TCP port between 20000 and 31999 on which nothing listened on 127.0.0.1 a moment ago.
func FreePort(ctx context.Context) (int, error) {
	var listen net.ListenConfig
	var last error
	for range attempts {
		if ctx.Err() != nil {
			return 0, fmt.Errorf("loopback: pick a port: %w", ctx.Err())
		}
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		listener, err := listen.Listen(ctx, "tcp", net.JoinHostPort(Host, strconv.Itoa(port)))
		if err != nil {
			last = err
			continue
		}
		if err := listener.Close(); err != nil {
			return 0, fmt.Errorf("loopback: close the probe: %w", err)
		}
		return port, nil
	}
	return 0, fmt.Errorf("%w: %w", ErrNoPort, last)
}
