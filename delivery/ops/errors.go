package ops

import (
	"errors"

	"github.com/postrider/postrider/delivery/ops/maintenance"
)

// Names of inputs, as an InputError gives them.
const (
	FieldState     = "state"
	FieldPartition = "partition"
	FieldStream    = "stream"
	FieldTopic     = "topic"
	FieldType      = "type"
	FieldTenant    = "tenant"
	FieldError     = "error_contains"
	FieldFamily    = "error_family"
	FieldUntil     = "until"
	FieldAfter     = "after"
	FieldLimit     = "limit"
	FieldWithin    = "within"
	FieldSequence  = "sequence"
	FieldEventID   = "event_id"
	FieldSelection = "selection"
	FieldReason    = "reason"
	FieldActor     = "actor"
	FieldWorker    = "worker"
	FieldExpected  = "expected_count"
	FieldAtLeast   = "expected_at_least"
	FieldAt        = "at"
)

// An InputError may wrap these.
var (
	// ErrNotFound means that no such message or partition exists.
	ErrNotFound = errors.New("not found")
	// ErrWrongState means that the operation is not for the message's state.
	ErrWrongState = errors.New("wrong state")
	// ErrCountChanged means that another number of messages matches.
	ErrCountChanged = errors.New("count changed")
)

// InputError is a complaint about one input. Its Field is one of the Field
// constants, its Err is ErrNotFound, ErrWrongState, ErrCountChanged or nil.
type InputError = maintenance.InputError

// ErrBusy means that a partition's row stayed locked by somebody else.
var ErrBusy = errors.New("a partition's row is locked by another session")
