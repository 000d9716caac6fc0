package outbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// WithoutEnqueue returns a producer that records events as audit-only and queues none of them. It is for history that consumers have, or must
// not have: a rebuild, a repair, an import. p itself goes on as before.
func (p *Producer) WithoutEnqueue() *Producer {
	quiet := *p
	quiet.cfg.Policy = func(Event) bool { return false }
	return &quiet
}

// WithoutEnqueueTx marks the transaction: everybody's appends in it from now on, also through the SQL functions, are recorded as audit-only
// and not queued. The mark ends with the transaction, or with a savepoint that is rolled back; a pooled connection cannot keep it. It needs
// EXECUTE on outbox_without_enqueue.
func (p *Producer) WithoutEnqueueTx(ctx context.Context, tx pgx.Tx) error {
	if _, err := p.sql.WithoutEnqueue.Exec(ctx, tx, nil); err != nil {
		return fmt.Errorf("mark the transaction: %w", err)
	}
	return nil
}
