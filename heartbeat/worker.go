package heartbeat

import (
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/condition"
	"github.com/postrider/postrider/partition"
)

// State is a worker's own account of itself.
type State string

// The states of a worker. Its heartbeat decides whether it is alive.
const (
	// Active workers are given partitions.
	Active State = "active"
	// Draining workers finish what they hold and are given nothing new.
	Draining State = "draining"
)

// Worker is a row of outbox_workers.
type Worker struct {
	ID             partition.WorkerID
	Hostname       string
	PID            int
	Version        string
	State          State
	StartedAt      time.Time
	HeartbeatUntil time.Time
	// Left is the time until the heartbeat expires by the database's clock; it is negative for a stale worker.
	Left time.Duration
	// Ahead reports whether the heartbeat expires later than it can: the database's clock has stepped
	// back. One that no beat renews for its whole TTL has expired (Left is 0).
	Ahead bool
	// DrainRequestedAt is the time of an operator's request to drain; nil: none.
	DrainRequestedAt *time.Time
	// Shape describes the form of its messages; "": unknown.
	Shape string
	// Canary is the fault of its last canary; "": none, or it sends none.
	Canary string
	// Condition kept it from delivering at its last beat; nil: none did. Its
	// time is the database's in a row that was read, this process's before.
	Condition *condition.Condition
}

// Live reports whether the heartbeat had not expired when the row was read.
func (w Worker) Live() bool { return w.Left > 0 }

// Snapshot is the table at one instant.
type Snapshot struct {
	// At is the database's clock.
	At      time.Time
	Workers []Worker
}

// Members returns the ids of the workers that take part in a plan: alive and active.
func (s Snapshot) Members() []partition.WorkerID {
	var ids []partition.WorkerID
	for _, w := range s.Workers {
		if w.Live() && w.State == Active {
			ids = append(ids, w.ID)
		}
	}
	return ids
}

// Find returns the worker of that id.
func (s Snapshot) Find(id uuid.UUID) (Worker, bool) {
	for _, w := range s.Workers {
		if w.ID == id {
			return w, true
		}
	}
	return Worker{}, false
}
