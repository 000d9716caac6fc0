// Package inboxtest tests handlers of package inbox on a real database.
//
// # Model
//
// A Kit delivers messages to a handler the way the world does: once, again, late, with a session that ends between the
// effect and the commit, with an acknowledgement that is lost. Verify plays a list of messages in each of these ways and
// compares the handler's effects with those of an undisturbed run.
//
//	func TestBalances(t *testing.T) {
//		inboxtest.Verify(t, inboxtest.Case{
//			Pool: pool, Handler: handle, Messages: messages,
//			Reset: func(ctx context.Context) error { _, err := pool.Exec(ctx, `TRUNCATE balances`); return err },
//			State: func(ctx context.Context) (string, error) { … },
//		})
//	}
//
// # Invariants
//
// Each Kit is a consumer of its own, in the schema "inboxtest", which it creates; tests may share a database. Nothing
// of the handler's tables is touched but by the handler and by Reset.
//
// # Failure handling
//
// A handler's fault fails the test and names the message. A database that cannot be used ends the test.
package inboxtest
