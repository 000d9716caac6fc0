// Package capture has the tables of an application append events by themselves: any table whose rows change (Capture), or an
// outbox table that is written for another relay (Adoption).
//
// # Model
//
// Both make one trigger function and one AFTER … FOR EACH ROW trigger of the table. The function calls outbox_append_bytes or outbox_append_adopted, so the event
// is part of the transaction that changed the row, and everything that holds for a producer's events holds for it.
//
// The function lies in the table's schema and runs as the table's owner, with a fixed search_path. So whoever may write to the table needs
// no right on the outbox, and the owner of the outbox runs nothing that the table's types bring along. The owner of the table must be a
// producer: USAGE on the outbox's schema, EXECUTE on outbox_append_bytes or outbox_append_adopted. The command is run by the table's owner or a superuser; what
// imports rows reads events, too.
//
//	                 INSERT                 UPDATE                         DELETE
//	capture          T.inserted {"new":…}   T.updated {"old":…,"new":…}    T.deleted {"old":…}
//	adoption         the event of the row   nothing                        nothing
//
// A captured row is the stream "schema.table:key", of several columns "schema.table:[a, b]". Rows are in the form of row_to_json, with fixed
// settings: numbers with all their digits, times as ISO 8601 in UTC, bytea as "\x…", money as locale C writes it, json columns as they were
// written. Columns that the table gets later are captured, too, unless the columns were chosen by name; columns that go are left out from
// then on. A choice is of columns by their numbers in the table: a renamed one stays chosen or left out, and names the stream as before.
//
// Adopt makes the trigger, which keeps writers out until the commit, and appends what waits in its order, in one transaction: no row is
// between the two. Its event id is the row's uuid, or is computed from the table's name and the row's id; where an event has that, it is
// computed from the row's content, too, and then drawn. An event says in its metadata which row of which table it is of: with the same
// content it is the row's, which gets no second one. A row is refused where nobody knows: its id has an event of another content, its uuid
// and content one of another source, events of its stream were dropped.
//
// Rows are read, and removed, by the query of a materialized view of the owner's: SET ROLE would not do, since what it runs could RESET it,
// or leave a deferred trigger for the COMMIT.
//
// A backfill tells the rows that are there in pages, each in a transaction, as T.read {"new":…}. It locks the rows of a page FOR SHARE, leaves
// out those whose stream has an event since it began, and notes the last key in the function's comment. So a row is told before its later
// changes; one that changed before is told by its change. It waits for a row that somebody holds while it holds no other.
//
// # Invariants
//
//   - A table that leaves another relay's publication with its trigger has each change told by one of the two: the trigger waits for those who
//     wrote before, and whoever writes afterwards finds both done.
//   - An adopted table takes the rows that it took before: outbox_adopted_event makes their values fit. Its columns may get other names and
//     types; one that is dropped of those that events need fails writes with 55000.
//   - Rows are removed from the table of the trigger, whatever it is called by now, and from no other.
//   - A change has one event if it commits, and none if it does not. An UPDATE that changes none of the captured columns has none.
//   - The events of a row are in the order of its changes: whoever changes it holds its lock until the event is committed.
//   - A key that is changed, and a row that goes to another partition, end one row and begin another: deleted, then inserted. Where another
//     row has the key by then, for its constraint is deferrable, that row is told instead: the last event of a key is its row as it is.
//   - Nobody but the owner can use the function for a trigger of another table, whatever default privileges say: that would forge events.
//   - Settings that a replacement does not name stay, the publication too.
//   - The trigger fires before the table's other AFTER triggers, for its name sorts before theirs.
//
// # Failures
//
// A table takes what it took before. A key that names no stream, for its length, control characters or spaces at its ends, is made to: the
// stream's name ends with ~ and an MD5 then. What fails the statement that changed the row is a payload that is too large, or does not fit
// the schema of a type that is checked, or a type's own cast to json or text that needs another search_path; the query of a materialized view, which queues
// no deferred trigger; and lastval(). A key that is coarser than the row queues its writers until commit, and can deadlock those
// that change rows in different orders (40P01); above READ COMMITTED a stream's event that the snapshot does not see makes 40001: both want to be
// tried again. A statement may change any number of rows: appends by triggers hold no lock of the shared lock table
// for a stream, but queue at its next version. A captured row costs its writer about 0.15 ms, some forty times an update of a small row.
//
// Making a trigger waits for those who write to the table. Where they wait for each other's rows behind it, PostgreSQL lets them pass after its
// deadlock_timeout; past the limit nothing is changed, and it can be tried again.
//
// A column of the key that is dropped fails writes with SQLSTATE 55000. A dump that is restored gives columns other numbers: names hold then,
// and where the table has columns that it had not, writes of a table with a choice fail with 55000 until the capture is made anew.
//
// A name that means two tables is refused; in double quotes it means one. List names a trigger's faults: disabled, children that it does not
// see, another owner, a publication that has the table again.
//
// Without a trigger there is no event: on a replica (session_replication_role), for a trigger that was disabled, for a partition that is
// dropped or detached. TRUNCATE is refused where deletions are captured, but not that of a partition by its own name. An AFTER trigger of
// the table that changes other rows of the statement that fired it is seen before the change of these by the statement itself.
//
// Whoever may execute outbox_without_enqueue has the changes of a transaction recorded and not published; the mark of others is taken off.
package capture
