// Package backend chooses the origin of the integration tests' PostgreSQL and NATS.
//
// Model: the environment variable POSTRIDER_TEST_BACKEND chooses between servers that run from installed
// binaries and inside the test process ("local", the default) and containers ("containers", built with the
// Go tag of the same name so that other test binaries need not link a Docker client).
//
// Invariants: both backends give a test the same promises; an ability of one alone, such as killing a
// server, is skipped on the other with the reason.
//
// Failure handling: an unknown value fails the test that asks; it never falls back. A missing Docker engine skips
// locally and fails under POSTRIDER_REQUIRE_CONTAINERS=1, as in CI.
package backend
