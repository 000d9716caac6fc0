// Package scaling holds the test that runs the released image: containers of it are started and stopped under load, on a Docker engine,
// against PostgreSQL and NATS in containers. It has no code of its own, and without the Go tag "containers" no tests either.
//
// `make test/containers` builds the images and runs it.
package scaling
