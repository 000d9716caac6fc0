// Package pg has the packages' access to PostgreSQL: one interface for connections, pools and transactions, the opening of
// pools, and the embedded statements.
//
// # Model
//
// A package keeps its statements in files, sql/*.sql, by table or verb:
//
//	-- query: Leave
//	DELETE FROM {schema}.outbox_workers WHERE worker_id = @worker
//
// and has a struct with a field of type Query for each. Fill puts them there once, when a store is made, with the schema's name in them and
// the named arguments numbered: a statement's text never changes afterwards, so that PostgreSQL and pgx prepare it once. Text common to
// several statements stands once, behind "-- fragment: name", and comes in where a line says "-- include: name". `make sql` prints the
// texts as they are sent; internal/house/testdata/statements.sql holds them, and a test compares.
//
// # Invariants
//
//   - Only a validated, quoted identifier is ever put into a statement; every other value travels as a parameter.
//   - Every query has a field and every field a query; every argument of a call is named in its statement, and the reverse:
//     internal/house compares the calls with the texts.
//   - A statement names its package and field in a comment, so that PostgreSQL's views lead to its text.
//
// # Failures
//
// A schema name that breaks the rule, and statements that do not fit, are errors of Fill. ErrArgs is returned by the call that
// gave other arguments than the statement has.
package pg
