// Command postrider relays the events of a transactional outbox from PostgreSQL to NATS JetStream, and lets people watch and mend it.
//
// # Model
//
// One file holds one command. The worker comes from package worker; fx wires settings, metrics and traces around it, and starts and stops
// them in order (worker.go). The rest of this package is flags, files and words.
//
// # Invariants
//
// Flags win over the environment, the environment over the file, the file over the defaults. A wrong value is refused by the name of its
// setting, never clamped. Secrets are never printed. Data goes to standard output, the rest to standard error.
//
// # Failures
//
// The exit status is 0 after an orderly end, 1 when the work failed, 2 when the command line or the configuration was refused.
package main
