// Package container runs the test images through a Docker engine. It is empty unless built with the Go tag
// "containers", so that ordinary test binaries need not link a Docker client.
//
// # Model
//
// Run starts one container of an image on the network of the host, where its server listens on a loopback port
// that the caller chose. Host networking needs neither a bridge nor packet filter rules, which an engine inside a
// sandbox often lacks. The server gets the same address as a private one.
//
// # Invariants
//
//   - No image is ever pulled and no helper container is started: deploy/testimages/build.sh makes what is needed.
//   - A container is removed with its data when it is stopped.
//
// # Failure handling
//
// backend.ErrNoEngine: no engine answers. A server that does not become ready is reported with the last lines of
// its log. A test binary that is killed leaves its containers to the one who runs the engine.
package container
