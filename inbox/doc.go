// Package inbox gives Go consumers of Postrider effectively-once processing in PostgreSQL.
//
// # Model
//
//	box, err := inbox.New(pool, inbox.Config{Name: "billing"})
//	consumer, err := inbox.NewConsumer(box, js, handle, inbox.ConsumerConfig{})
//	err = consumer.Run(ctx)
//
// In one transaction the inbox looks the message up, runs the handler and records both, so that an effect is there
// exactly when its record is. What a handler does outside of that transaction is not covered.
package inbox
