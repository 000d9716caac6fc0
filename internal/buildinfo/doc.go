// Package buildinfo names the running build.
//
// # Model
//
// The version is set by the linker; without it, the module's version or the revision that the Go toolchain recorded is used.
//
// # Invariants
//
// Version never returns an empty string.
//
// # Failures
//
// None: an unknown version is called "devel".
package buildinfo
