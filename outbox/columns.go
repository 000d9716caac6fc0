package outbox

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/partition"
)

// columns holds the events of one call the way outbox_append_batch takes them: one array per column. A column that no event uses stays nil,
// which saves the database work for each entry.
type columns struct {
	streams    []string
	types      []string
	payloads   [][]byte
	ids        []uuid.UUID
	expected   []*int64
	metadata   [][]byte
	topics     []string
	keys       []*string
	hashes     []int64
	dedupe     []*string
	tenants    []*string
	published  []bool
	notBefore  []*time.Time
	occurredAt []*time.Time
}

func (p *Producer) columns(events []Event) (*columns, error) {
	n := len(events)
	c := &columns{
		streams: make([]string, n), types: make([]string, n), payloads: make([][]byte, n),
		ids: make([]uuid.UUID, n), topics: make([]string, n), hashes: make([]int64, n),
	}
	for i, e := range events {
		e.Topic = cmp.Or(e.Topic, DefaultTopic)
		key := p.routingKey(e)
		if err := p.validate(i, &e, key); err != nil {
			return nil, err
		}
		if err := c.set(i, n, e, key); err != nil {
			return nil, fmt.Errorf("event %d: %w", i, err)
		}
		if e.AuditOnly || p.cfg.Policy != nil && !p.cfg.Policy(e) {
			if c.published == nil {
				c.published = slices.Repeat([]bool{true}, n)
			}
			c.published[i] = false
		}
	}
	return c, nil
}

// routingKey returns the key that decides the partition.
func (p *Producer) routingKey(e Event) string {
	if e.PartitionKey == "" && p.cfg.Partitioner != nil {
		e.PartitionKey = p.cfg.Partitioner(e)
	}
	if e.PartitionKey == "" {
		return e.StreamID
	}
	return e.PartitionKey
}

func (c *columns) set(i, n int, e Event, key string) (err error) {
	c.streams[i], c.types[i], c.topics[i] = e.StreamID, e.Type, e.Topic
	c.hashes[i] = int64(partition.Hash(key)) // SQL stores the 64 bits as a signed number
	c.payloads[i] = e.Payload
	if e.Payload == nil {
		c.payloads[i] = []byte{} // nil would be NULL
	}
	c.ids[i] = e.ID
	if e.ID == uuid.Nil {
		if c.ids[i], err = uuid.NewV7(); err != nil {
			return fmt.Errorf("make an event id: %w", err)
		}
	}
	metadata, err := metadataJSON(e.Metadata)
	if err != nil {
		return err
	}
	if metadata != nil {
		put(&c.metadata, i, n, metadata)
	}
	if key != e.StreamID {
		put(&c.keys, i, n, &key)
	}
	if e.DedupeKey != "" {
		put(&c.dedupe, i, n, &e.DedupeKey)
	}
	if e.TenantID != "" {
		put(&c.tenants, i, n, &e.TenantID)
	}
	if version, exact := e.ExpectedVersion.Exact(); exact {
		put(&c.expected, i, n, &version)
	}
	if !e.AvailableAt.IsZero() {
		put(&c.notBefore, i, n, &e.AvailableAt)
	}
	if !e.OccurredAt.IsZero() {
		put(&c.occurredAt, i, n, &e.OccurredAt)
	}
	return nil
}

// put sets one entry of a column and makes the column when it is the first.
func put[T any](column *[]T, i, n int, value T) {
	if *column == nil {
		*column = make([]T, n)
	}
	(*column)[i] = value
}

func (c *columns) arguments() pg.Args {
	return pg.Args{
		"streams": c.streams, "types": c.types, "payloads": c.payloads, "ids": c.ids, "expected": c.expected,
		"metadata": c.metadata, "topics": c.topics, "keys": c.keys, "hashes": c.hashes, "dedupe": c.dedupe,
		"tenants": c.tenants, "published": c.published, "not_before": c.notBefore, "occurred_at": c.occurredAt,
	}
}

// texts returns the arguments with each array in PostgreSQL's text form: the only one that all drivers of database/sql agree on.
func (c *columns) texts() (pg.Args, error) {
	args, types := c.arguments(), pgtype.NewMap()
	for name, array := range map[string]uint32{
		"streams": pgtype.TextArrayOID, "types": pgtype.TextArrayOID, "payloads": pgtype.ByteaArrayOID, "ids": pgtype.UUIDArrayOID,
		"expected": pgtype.Int8ArrayOID, "metadata": pgtype.JSONBArrayOID, "topics": pgtype.TextArrayOID, "keys": pgtype.TextArrayOID,
		"hashes": pgtype.Int8ArrayOID, "dedupe": pgtype.TextArrayOID, "tenants": pgtype.TextArrayOID, "published": pgtype.BoolArrayOID,
		"not_before": pgtype.TimestamptzArrayOID, "occurred_at": pgtype.TimestamptzArrayOID,
	} {
		text, err := types.Encode(array, pgtype.TextFormatCode, args[name], nil)
		if err != nil {
			return nil, fmt.Errorf("write %s as text: %w", name, err)
		}
		args[name] = nil // NULL, for a column that no event uses
		if text != nil {
			args[name] = string(text)
		}
	}
	return args, nil
}
