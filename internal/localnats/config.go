package localnats

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
)

// ErrInvalidConfig is wrapped by every error of Config.Validate.
var ErrInvalidConfig = errors.New("localnats: invalid configuration")

const (
	highestPort = 65535
	// largestPayload is a NATS server's own limit (MAX_PAYLOAD_MAX_SIZE of nats-server).
	largestPayload = 64 << 20
)

// Config describes the servers. The zero value is valid.
type Config struct {
	// Nodes is the number of servers, 1 or 3. Defaults to 1.
	Nodes int
	// StoreDir is the folder of the streams; each node has one below it. Defaults to a temporary folder that Stop removes.
	StoreDir string
	// Ports are the client ports of the nodes, 1 to 65535, no more than nodes. A node without one, or with 0, gets a free port.
	Ports []int
	// MaxPayload is the largest message in bytes, headers included, up to 64 MiB. Defaults to the server's 1 MiB.
	MaxPayload int
	// MaxBatches bounds the atomic batches that a stream takes at once. Defaults to the server's 50.
	MaxBatches int
	// SyncAlways forces every acknowledged write to disk, as `sync_interval: always` does. Defaults to false:
	// the server forces writes to disk every two minutes.
	SyncAlways bool
	// Logger receives the servers' own messages: notices at debug level, warnings and errors as such. Defaults to a logger that discards.
	Logger *slog.Logger
}

// Validate reports the first field that cannot be used.
func (c Config) Validate() error {
	switch {
	case c.Nodes != 0 && c.Nodes != 1 && c.Nodes != 3:
		return fmt.Errorf("%w: Nodes is %d, must be 1 or 3", ErrInvalidConfig, c.Nodes)
	case len(c.Ports) > max(c.Nodes, 1):
		return fmt.Errorf("%w: Ports are %d, Nodes is %d", ErrInvalidConfig, len(c.Ports), max(c.Nodes, 1))
	case c.MaxPayload < 0 || c.MaxPayload > largestPayload:
		return fmt.Errorf("%w: MaxPayload is %d bytes, must be 0 to %d", ErrInvalidConfig, c.MaxPayload, largestPayload)
	}
	for _, port := range c.Ports {
		if port < 0 || port > highestPort {
			return fmt.Errorf("%w: Ports: %d is none, must be 0 to %d", ErrInvalidConfig, port, highestPort)
		}
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.Nodes = cmp.Or(c.Nodes, 1)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}
