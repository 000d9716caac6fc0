package outbox

import (
	"cmp"
	"fmt"

	"github.com/postrider/postrider/internal/pg"
)

// DefaultMaxPayloadBytes is the limit of a migrated database: the longest message that NATS advises, 8 MiB.
const DefaultMaxPayloadBytes = 8 << 20

// Config has the settings of a Producer.
type Config struct {
	// Schema holds the outbox tables. Defaults to "public".
	Schema string
	// Partitioner returns the routing key of an event that has no PartitionKey. Events with the same key share a partition. An empty answer
	// means the stream id. Defaults to the stream id.
	Partitioner func(Event) string
	// Policy decides which events are published; the others are stored as audit-only. Defaults to publishing all that are not AuditOnly.
	Policy func(Event) bool
	// MaxPayloadBytes is the largest payload, 1 byte or more. The database has a limit of its own, outbox_settings.max_payload_bytes; so
	// does the broker. Defaults to DefaultMaxPayloadBytes.
	MaxPayloadBytes int
}

// Validate refuses a wrong value with ErrConfig and names its field.
func (c Config) Validate() error {
	if c.Schema != "" {
		if err := pg.CheckSchema(c.Schema); err != nil {
			return fmt.Errorf("%w: Schema: %w", ErrConfig, err)
		}
	}
	if c.MaxPayloadBytes < 0 {
		return fmt.Errorf("%w: MaxPayloadBytes must be at least 1, got %d", ErrConfig, c.MaxPayloadBytes)
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.Schema = cmp.Or(c.Schema, "public")
	c.MaxPayloadBytes = cmp.Or(c.MaxPayloadBytes, DefaultMaxPayloadBytes)
	return c
}
