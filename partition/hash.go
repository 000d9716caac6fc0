package partition

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"
)

// MaxCount is the largest number of partitions: ids are PostgreSQL smallints.
const MaxCount Count = 32767

// ErrCount is returned for a partition count outside 1..32767.
var ErrCount = errors.New("partition count must be 1..32767")

// ID is the number of a partition, 0..Count-1.
type ID int16

// Append adds the number to a list in bytes, as rings of the doorbell hold it: two bytes each, big-endian.
func (id ID) Append(list []byte) []byte {
	return binary.BigEndian.AppendUint16(list, uint16(id)) // never negative
}

// ParseIDs reads such a list. False: it is empty, or none.
func ParseIDs(list []byte) (ids []ID, ok bool) {
	if len(list) == 0 || len(list)%2 != 0 {
		return nil, false
	}
	for ; len(list) > 0; list = list[2:] {
		ids = append(ids, ID(binary.BigEndian.Uint16(list))) // a number that no partition has names nothing
	}
	return ids, true
}

// Count is the number of partitions of an outbox, 1..32767.
type Count int

// WorkerID names one process start of a worker.
type WorkerID = uuid.UUID

// Validate refuses a count outside 1..32767 with ErrCount.
func (n Count) Validate() error {
	if n < 1 || n > MaxCount {
		return fmt.Errorf("%w: got %d", ErrCount, int(n))
	}
	return nil
}

// Hash returns XXH64 with seed 0 over the bytes of key, as specified at https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md.
func Hash(key string) uint64 { return xxhash.Sum64String(key) }

// Of returns the partition of key among n partitions: Hash(key) mod n, unsigned. n must be valid.
func Of(key string, n Count) ID { return ID(Hash(key) % uint64(n)) }
