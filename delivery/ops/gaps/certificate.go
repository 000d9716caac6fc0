package gaps

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"maps"
	"slices"
	"time"

	"github.com/postrider/postrider/partition"
)

// certifiedLines bounds a certificate: of more partitions, those with the same remainder share a line.
const certifiedLines = 256

// certificate sums up the messages that an audit compared, by the partitions that they name.
type certificate struct {
	began       time.Time
	first, last uint64
	count       int64
	lines       map[partition.ID]*certified
}

type certified struct {
	count int64
	sum   hash.Hash
}

// add takes the messages in the order of their positions.
func (c *certificate) add(m StoredMessage) {
	if c.count++; c.first == 0 {
		c.first = m.Position
	}
	c.last = m.Position
	id := m.Partition % certifiedLines
	if c.lines[id] == nil {
		c.lines[id] = &certified{sum: sha256.New()}
	}
	c.lines[id].count++
	text := append(binary.BigEndian.AppendUint64(make([]byte, 0, 32), uint64(m.Sequence)), m.EventID[:]...)
	c.lines[id].sum.Write(binary.BigEndian.AppendUint64(text, m.Position))
}

// body is its JSON form. A hash is the begin of SHA-256 over each message's sequence, event id and position: 8, 16 and 8 bytes.
func (c *certificate) body(done Repaired) map[string]any {
	lines := []map[string]any{}
	for _, id := range slices.Sorted(maps.Keys(c.lines)) {
		lines = append(lines, map[string]any{
			"partition_key": id, "count": c.lines[id].count, "hash": hex.EncodeToString(c.lines[id].sum.Sum(nil)[:8]),
		})
	}
	return map[string]any{
		"first": c.first, "last": c.last, "messages": c.count, "history": done.Report.Delivered, "missing": done.Report.Counts[NotInStream],
		"queued": len(done.Queued), "seconds": time.Since(c.began).Seconds(), "notes": done.Report.Notes, "partitions": lines,
	}
}
