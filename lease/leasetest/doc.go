// Package leasetest makes leases for tests of what works under a lease, without a database.
//
// # Model
//
// Held returns a lease that is trusted until it is ended with Lost.
//
// # Invariants
//
// Such a lease stands for no row: its compare-and-sets find nothing.
//
// # Failures
//
// None.
package leasetest
