// Package pgtest gives every test a PostgreSQL database of its own.
//
// # Model
//
// A test binary shares one server, started by the first test that asks and stopped by Main after the last one.
// URL gives an empty database on it; Migrated gives one with the project's schema, copied from a
// template that is migrated once per partition count. Server gives a whole server for tests that crash it.
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
//	func TestAppend(t *testing.T) {
//		t.Parallel()
//		pool := pgtest.Pool(t, pgtest.Migrated(t, 8))
//		…
//
// The shared server is a private one from installed binaries, a container (see package backend), or the
// server that POSTRIDER_TEST_DATABASE_URL names, whose role must be allowed to create databases.
//
// # Invariants
//
//   - No two tests share a database, and none sees the data of an earlier one.
//   - Databases are dropped when their test ends, also on a server that is not ours; no other database is touched.
//   - After Main no process, goroutine or folder is left; goroutine leaks fail the run.
//
// # Failure handling
//
// A server that cannot start fails every test that asks for it, with the same reason and without starting
// again. Forgetting Main fails the first test that asks.
package pgtest
