package heartbeat

import (
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/condition"
	"github.com/postrider/postrider/partition"
)

// State is what a worker says of itself.
type State string

// The states of a worker. Whether it is alive is told by its heartbeat.
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
	// Ahead tells that the heartbeat expires later than one can: the database's clock has stepped back
	// since. One that stays as it is for as long as one counts has expired (Left is 0).
	Ahead bool
	// DrainRequestedAt is when an operator asked the worker to give its partitions back; nil: nobody did.
	DrainRequestedAt *time.Time
	// Shape says what its messages look like; "": it does not say.
	Shape string
	// Canary says what is wrong with the canary that it sent last; "": nothing, or it sends none.
	Canary string
	// Condition is what kept it from delivering at its last beat; nil: nothing. Its
	// time is the database's when it was read, this process's when it is written.
	Condition *condition.Condition
}

// Live tells whether the heartbeat had not expired when the row was read.
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
