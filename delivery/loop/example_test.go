package loop_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/delivery/rewrite"
	"github.com/postrider/postrider/delivery/shape"
)

// A hook brings version 1 of an event up to date: consumers see version 2 alone. Rules follow that redact what it made.
func ExampleTransform() {
	upcast := func(_ context.Context, d *shape.Draft) error {
		if d.Type != "order.paid" {
			return nil
		}
		var old struct {
			Amount float64 `json:"amount"`
			Card   string  `json:"card"`
		}
		if err := json.Unmarshal(d.Payload, &old); err != nil {
			return fmt.Errorf("%w: version 1 is JSON: %w", shape.ErrPermanent, err)
		}
		d.Type = "order.paid.v2"
		d.Payload = fmt.Appendf(nil, `{"cents":%d,"card":%q}`, int(old.Amount*100), old.Card)
		return nil
	}
	card, err := rewrite.ParsePointer("/card")
	if err != nil {
		panic(err)
	}
	rules := rewrite.Rules{Redactions: []rewrite.Redaction{{Type: "order.paid.v2", Pointer: card}}}
	config := loop.Config{Transforms: []shape.Transform{upcast, rules.Transform()}} // for loop.NewRelay

	event := shape.Draft{Type: "order.paid", Topic: "shop", Payload: []byte(`{"amount": 12.5, "card": "4111"}`)}
	published, err := shape.TryTransforms(context.Background(), event, 0, config.Transforms...)
	fmt.Println(published.Type, string(published.Payload), err)
	// Output: order.paid.v2 {"cents":1250} <nil>
}
