// Package outboxtest reads appended events in tests: in a transaction of a real database, or in a Fake without any.
//
// # Model
//
// Read and ReadSQL return the events that a transaction has appended, before it ends; Require wants exactly one of them to be like a given
// event, whose empty fields are not compared.
//
//	func TestPay(t *testing.T) {
//		tx, err := pool.Begin(t.Context())
//		…
//		defer tx.Rollback(t.Context())
//		if err := shop.Pay(t.Context(), tx, "17"); err != nil {
//			t.Fatal(err)
//		}
//		events := outboxtest.Read(t, tx, "public")
//		events.Require(t, outbox.Event{StreamID: "order-17", Type: "order.paid", Payload: []byte(`{"amount": 12}`)})
//		events.RequireNone(t, outbox.Event{Type: "order.cancelled"})
//	}
//
// Where the code under test does nothing else in its transaction, a Fake takes the place of the database: as a pgx.Tx, or as a *sql.DB.
//
//	fake := outboxtest.NewFake()
//	err := shop.Pay(t.Context(), fake, "17")
//	outboxtest.Read(t, fake, "public").Require(t, outbox.Event{StreamID: "order-17"})
//
// # Invariants
//
// Read sees what its own transaction appended, in savepoints too, and nothing of others. A Fake answers AppendTx and AppendSQL as the
// database does: sequences, versions, duplicates, conflicts, and a transaction that failed takes nothing more. It does not know two
// transactions at a time, nor retention, nor what is set in the database: limits, types that are checked.
//
// # Failure handling
//
// A difference fails the test and lists the events, each with its differences. A transaction that cannot be read ends the test. A Fake
// refuses every other statement: test that on a real database.
package outboxtest
