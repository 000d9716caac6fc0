// Package topologies tries what may stand between the workers' stream and its consumers: consumer groups with partitions, mirrors,
// sources, leaf nodes.
//
// It has tests alone. docs/topologies.md says which arrangements keep the order and the fence, and which break them; each of its sentences
// is a test here, and those of a break show it.
//
//	go -C examples test ./topologies
package topologies
