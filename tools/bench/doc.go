// Command bench measures Postrider on this machine, beside a relay that keeps no state. Package measure says how.
//
//	make bench BENCH="--only drain --rounds 5"
//	bin/bench --list
//
// # Model
//
// The flags become a measure.Config, the report a table, JSON and a chart. The program under test is another process:
// --program names it, and make bench builds it. Besides, bench starts itself, as the broker and as the null relay; those
// calls begin with measure.PartCommand and are not for people.
//
// # Invariants
//
// Standard output has the report alone, standard error the progress and the log.
//
// # Failure handling
//
// The exit status is 2 for unusable settings, which are named, and 1 for other failures. Cases measured before an
// interruption or a failure are shown.
package main
