package loop_test

import (
	"errors"
	"testing"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/lease"
	"github.com/postrider/postrider/partition"
)

// write is something that a worker does to the database under its lease.
type write struct {
	name string
	do   func(l *lease.Lease) error
}

// leaseWrites are all of them, each with something to change in the rows of
// TestEveryWriteComparesOwnerAndEpoch.
func (b *bundle) leaseWrites(t *testing.T, ready, healed int64, claimed delivery.Message) []write {
	t.Helper()
	markMessage := func(m delivery.Message, o delivery.Outcome) func(*lease.Lease) error {
		return func(l *lease.Lease) error {
			_, err := b.store.Mark(t.Context(), []delivery.Result{{
				Batch:    delivery.Batch{Lease: l, Messages: []delivery.Message{m}},
				Outcomes: []delivery.Outcome{o},
				Revision: int64(b.number(t, `SELECT revision FROM outbox_partitions`)),
			}}, delivery.DefaultRetryPolicy(), func() float64 { return 0 })
			return err
		}
	}
	mark := func(p delivery.Pointer, o delivery.Outcome) func(*lease.Lease) error {
		return markMessage(delivery.Message{Pointer: p}, o)
	}
	published := delivery.Outcome{Kind: delivery.Published, StreamSequence: 20}
	return []write{
		{"take", func(l *lease.Lease) error {
			_, err := b.store.Take(t.Context(), l, "")
			return err
		}},
		{"carrying", func(l *lease.Lease) error { return b.store.Carrying(t.Context(), []*lease.Lease{l}, true) }},
		{"pause over", func(l *lease.Lease) error {
			_, _, err := b.store.PauseOver(t.Context(), l, 0, "a test")
			return err
		}},
		{"heal", func(l *lease.Lease) error {
			_, _, _, err := b.store.Heal(t.Context(), l, delivery.Loss{Kept: 3}, delivery.EveryBatch)
			return err
		}},
		{"unblock", func(l *lease.Lease) error { return b.store.Unblock(t.Context(), l, delivery.BehindStream) }},
		{"promote", mark(delivery.Pointer{Sequence: healed + 1000, Stream: "waits", Parked: true}, published)},
		{"park", mark(delivery.Pointer{Sequence: ready, Stream: "s"}, delivery.Outcome{Kind: delivery.Retry, Err: errors.New("broken")})},
		{"mark", mark(delivery.Pointer{Sequence: ready, Stream: "s", Parked: true}, published)},
		{"bulk mark", markMessage(claimed, published)},
		{"raise", func(l *lease.Lease) error { return b.store.Raise(t.Context(), l, l.Epoch+5) }}, // it ends the lease
	}
}

// Whatever a worker writes under a lease that is not the row's any more changes
// nothing: not when the partition has another owner, and not when its own process
// took it once more.
func TestEveryWriteComparesOwnerAndEpoch(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	ready, healed := b.append(t, "s", `1`), b.append(t, "lost", `1`)
	b.exec(t, `DELETE FROM outbox WHERE stream_id = 'lost'`)
	b.exec(t, `INSERT INTO outbox_deliveries (partition_key, lease_epoch, first_sequence, last_sequence,
		first_stream_sequence, last_stream_sequence, published_at, message_count)
		VALUES (0, 1, $1, $1, 9, 9, clock_timestamp(), 1)`, healed)
	block := func() {
		b.exec(t, `DELETE FROM outbox WHERE stream_id = 'waits'`)
		b.exec(t, `INSERT INTO outbox (global_sequence, partition_key, stream_id, parked, blocked) VALUES ($1, 0, 'waits', true, true)`, healed+1)
	}
	block()
	b.exec(t, `UPDATE outbox_partitions SET fence_sequence = 9, stream_sequence = 9`)
	b.acquireAll(t, b.keeper)
	l := b.keeper.Set().Get(partition.ID(0))
	claimed := b.claimed(t, l, b.append(t, "bulk", `1`))
	for change, sql := range map[string]string{
		"the epoch": `UPDATE outbox_partitions SET lease_epoch = lease_epoch + 1`,
		"the owner": `UPDATE outbox_partitions SET lease_owner = gen_random_uuid()`,
	} {
		b.exec(t, sql)
		before := b.everything(t)
		for _, w := range b.leaseWrites(t, ready, healed, claimed) {
			err := w.do(l) // some say so, some do not
			if after := b.everything(t); after != before {
				t.Errorf("%s changed, and %s is written all the same (%v):\n%s\n%s", change, w.name, err, before, after)
			}
		}
		b.exec(t, `UPDATE outbox_partitions SET lease_owner = $1`, l.Owner)
		b.exec(t, `UPDATE outbox_partitions SET lease_epoch = $1`, l.Epoch)
	}
	for _, w := range b.leaseWrites(t, ready, healed, claimed) { // under the lease each has something to change
		if w.name == "promote" {
			block()
		}
		before := b.everything(t)
		if err := w.do(l); err != nil || b.everything(t) == before {
			t.Errorf("%s changes nothing under the lease: %v", w.name, err)
		}
	}
}

// claimed is the message of that sequence as a claim returns it.
func (b *bundle) claimed(t *testing.T, l *lease.Lease, sequence int64) delivery.Message {
	t.Helper()
	found, err := b.store.Claim(t.Context(), []delivery.Ask{{Lease: l, Revision: b.takeRow(t, l), After: sequence - 1, Most: 1}},
		delivery.Limits{Total: 1, UpTo: sequence}, delivery.BehindStream)
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Batches) != 1 || found.Batches[0].Messages[0].Sequence != sequence {
		t.Fatalf("claimed %+v", found.Batches)
	}
	return found.Batches[0].Messages[0]
}

// everything is the contents of the tables that workers write, but for times.
func (b *bundle) everything(t *testing.T) (text string) {
	t.Helper()
	err := b.pool.QueryRow(t.Context(), `
		SELECT concat((SELECT json_agg(to_jsonb(o) - '{available_at,dead_at}'::text[] ORDER BY global_sequence) FROM outbox AS o), E'\n',
		              (SELECT json_agg(to_jsonb(p) - '{updated_at,lease_until}'::text[]) FROM outbox_partitions AS p), E'\n',
		              (SELECT json_agg(to_jsonb(d) - 'published_at' ORDER BY id) FROM outbox_deliveries AS d))`).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
