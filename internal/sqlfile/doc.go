// Package sqlfile loads the hand-written SQL statements that the packages
// embed, one statement per file, and puts the schema's name into them.
//
// # Model
//
// A statement names its tables as {schema}.outbox_partitions. Load replaces
// {schema} by the quoted identifier once, at construction, so that statement
// texts are constants for the lifetime of a store: PostgreSQL's and pgx's
// statement caches see one text per statement.
//
// # Invariants
//
// Only a validated, quoted identifier is ever put into a statement; every
// other value travels as a parameter.
//
// # Failures
//
// A schema name that breaks the rule, and a statement file that is missing,
// are programming or configuration errors and are returned by Load.
package sqlfile
