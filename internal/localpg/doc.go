// Package localpg runs a private PostgreSQL server from the server binaries that are installed on
// this machine. `postrider dev` and the integration tests stand on it.
//
// # Model
//
// A Server is one data directory, one TCP port on 127.0.0.1 and one superuser ("postgres") with a generated password. Start creates the
// cluster with initdb when the directory is empty and reuses it otherwise; Stop ends it. A Config without DataDir means a temporary
// directory that Stop removes. The server keeps its port and its password across Restart, so that a URL given out stays valid.
//
// There is no Unix socket: temporary directories exceed the limit of its path, about 100 bytes. One kind
// of address that works for every client, psql included, is easier to reason about.
//
// # Invariants
//
//   - Only loopback is listened on, and only with a password (scram-sha-256).
//   - The server binaries refuse to run as root. A root process starts them as the owner of the data
//     directory, or for a new one as user "postgres" or else "nobody", and gives that user the new directory.
//   - A data directory that this package did not create is never changed: ErrForeignDataDir.
//     A postmaster.pid in it is left to PostgreSQL to judge.
//   - On Linux the server ends with the process that started it, also when that is killed: the kernel
//     sends the postmaster SIGQUIT when the thread that forked it ends, so that thread is held for
//     the life of the server. Go sets this signal after it has changed the user, which would clear it.
//     Elsewhere a killed parent leaves the server running.
//   - A temporary directory is locked by the process that made it. Start removes those whose lock is
//     free: their process died before it could clean up.
//
// # Failure handling
//
// Start reports what the server or initdb wrote last. A port taken between choosing and binding is replaced by another one, five times at
// most. Stop turns into an immediate shutdown when its context ends, so that it always leaves no process behind. StopImmediate and Kill
// simulate crashes: both leave the data directory for Restart, which then waits for crash recovery. An unplanned end closes Done and is
// logged with the server's last words.
package localpg
