package orms

import (
	"fmt"

	"github.com/postrider/postrider/outbox"
)

// Tables are those of the application. That the customer exists is checked at the commit.
const Tables = `
CREATE TABLE customers (id bigint PRIMARY KEY);
CREATE TABLE orders (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer bigint NOT NULL REFERENCES customers DEFERRABLE INITIALLY DEFERRED,
    amount   bigint NOT NULL
)`

// Order is what somebody orders.
type Order struct{ Customer, Amount int64 }

// placed is the event of an order that was given its id.
func (o Order) placed(id int64) outbox.Event {
	return outbox.Event{
		StreamID: fmt.Sprintf("order-%d", id), Type: "order.placed", Topic: "shop",
		Payload: fmt.Appendf(nil, `{"customer": %d, "amount": %d}`, o.Customer, o.Amount),
	}
}
