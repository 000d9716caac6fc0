package leasetest

import (
	"github.com/google/uuid"

	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// Held returns a lease of that partition and epoch under an unknown owner.
func Held(id partition.ID, epoch int64) *lease.Lease {
	return lease.Untimed(id, uuid.Must(uuid.NewV7()), epoch)
}
