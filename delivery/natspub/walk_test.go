package natspub_test

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/lease/leasetest"
	"github.com/postrider/postrider/partition"
)

// An owner dies that has announced messages of many partitions, and stored one of each. Its heirs find these behind all that others published
// since, and read that once, not once a partition.
func TestHeirsReadOnceForAllPartitions(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	const partitions, others = 16, 3000
	announce := func(id partition.ID, m delivery.Message) {
		identity := binary.BigEndian.AppendUint64(nil, delivery.IdentityOf(m.Event.ID))
		body := fmt.Sprintf(`{"v":3,"kind":"announcement","epoch":7,"owner":%q,"batch":1,"attempt":"a%d","events":2,"parts":[{"sequences":[%d,1],"identities":%q}]}`,
			uuid.New(), id, m.Sequence, base64.StdEncoding.EncodeToString(append(identity, make([]byte, 8)...)))
		if _, err := b.nc.Request(streams.Control{}.Subject(id), []byte(body), 5*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	store := func(m delivery.Message) {
		msg := nats.NewMsg("events.shop.order")
		for name, value := range map[string]string{
			"Outbox-Event-Id": m.Event.ID.String(), "Outbox-Sequence": fmt.Sprint(m.Sequence), "Outbox-Partition": fmt.Sprint(m.Partition),
			"Outbox-Stream": m.Stream, "Outbox-Stream-Version": "1", "Outbox-Type": "x",
		} {
			msg.Header.Set(name, value)
		}
		if _, err := b.nc.RequestMsg(msg, 5*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	var stored [partitions]delivery.Message
	for id := range partition.ID(partitions) {
		stored[id] = newMessage(int64(1000*int(id)+1), "s", "x")
		stored[id].Partition = id
		announce(id, stored[id])
		store(stored[id])
	}
	for i := range others {
		other := newMessage(int64(100_000+i), "o", "x")
		other.Partition = 200
		store(other)
	}
	nc := connect(t, b.server)
	heir := b.fenced(t, nc, natspub.FencedConfig{})
	before := nc.Stats().OutMsgs
	var taking errgroup.Group
	for id := range partition.ID(partitions) {
		taking.Go(func() error {
			s, err := heir.Take(t.Context(), leasetest.Held(id, 8), delivery.Known{})
			if err != nil {
				return err
			}
			if len(s.Delivered) != 1 || s.Delivered[0].Sequence != stored[id].Sequence || s.Delivered[0].StreamSequence != uint64(2*id+2) {
				return fmt.Errorf("partition %d is delivered %+v", id, s.Delivered)
			}
			return nil
		})
	}
	if err := taking.Wait(); err != nil {
		t.Error(err)
	}
	if asked := nc.Stats().OutMsgs - before; asked > 2*others {
		t.Errorf("%d requests for %d messages and %d partitions", asked, others+2*partitions, partitions)
	}
}
