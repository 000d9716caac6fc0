package ui

import (
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/ui/source"
)

// Types of the monitor's state, under the names that embedding programs know.
type (
	// Source reads the state that the monitor shows.
	Source = source.Source
	// SourceConfig names the stores that a Source is composed of.
	SourceConfig = source.Config
	// Cache reads a source at most once an interval and shares the snapshot.
	Cache = source.Cache
	// CacheConfig tunes a Cache.
	CacheConfig = source.CacheConfig

	// Snapshot is the cluster at one moment.
	Snapshot = source.Snapshot
	// Worker is one process that delivers.
	Worker = source.Worker
	// WorkerState is the activity of a worker.
	WorkerState = source.WorkerState
	// Partition is one share of the outbox: its lease and its backlog.
	Partition = source.Partition
	// Minute is one bucket of the throughput history.
	Minute = source.Minute
	// Second counts the events published in one second.
	Second = source.Second

	// SummaryBody is the JSON form of a snapshot's totals.
	SummaryBody = source.SummaryBody
	// ChangeBody is the JSON form of a change of ownership.
	ChangeBody = source.ChangeBody
	// OwnerBody is the JSON form of an owner.
	OwnerBody = source.OwnerBody
)

// States of a worker and of the watermark; package source explains them.
const (
	WorkerActive   = source.WorkerActive
	WorkerDraining = source.WorkerDraining
	WorkerStale    = source.WorkerStale

	WatermarkUnused  = source.WatermarkUnused
	WatermarkUnknown = source.WatermarkUnknown
)

// ErrNoSnapshot is returned while the source has never answered.
var ErrNoSnapshot = source.ErrNoSnapshot

// NewSource composes the read sides of the packages that own the tables.
func NewSource(config SourceConfig) (Source, error) { return source.New(config) }

// NewCache puts a cache before the source.
func NewCache(from Source, config CacheConfig) (*Cache, error) { return source.NewCache(from, config) }

// ChangeBodies returns the JSON form of changes.
func ChangeBodies(changes []lease.Change) []ChangeBody { return source.ChangeBodies(changes) }

// WaitReasons returns all reasons of a Wait.
func WaitReasons() []string { return source.WaitReasons() }
