package deployment_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// control are the requests that change a stream or its consumers, or read past a durable consumer.
var control = []string{
	"$JS.API.STREAM.CREATE.OTHER", "$JS.API.STREAM.UPDATE.EVENTS", "$JS.API.STREAM.DELETE.EVENTS", "$JS.API.STREAM.PURGE.EVENTS",
	"$JS.API.STREAM.MSG.DELETE.EVENTS", "$JS.API.STREAM.SNAPSHOT.EVENTS", "$JS.API.STREAM.RESTORE.EVENTS", "$JS.API.STREAM.LIST", "$JS.API.STREAM.NAMES",
	"$JS.API.STREAM.LEADER.STEPDOWN.EVENTS", "$JS.API.STREAM.PEER.REMOVE.EVENTS", "$JS.API.STREAM.INFO.OTHER", "$JS.API.STREAM.MSG.GET.OTHER",
	"$JS.API.DIRECT.GET.EVENTS", "$JS.API.DIRECT.GET.EVENTS.events.a.b", "$JS.API.CONSUMER.CREATE.EVENTS", "$JS.API.CONSUMER.CREATE.EVENTS.mine",
	"$JS.API.CONSUMER.DURABLE.CREATE.EVENTS.mine", "$JS.API.CONSUMER.DELETE.EVENTS.reader", "$JS.API.CONSUMER.PAUSE.EVENTS.reader",
	"$JS.API.CONSUMER.LIST.EVENTS", "$JS.API.CONSUMER.NAMES.EVENTS", "$JS.API.CONSUMER.INFO.EVENTS.other", "$JS.API.CONSUMER.MSG.NEXT.EVENTS.other",
	"$JS.ACK.EVENTS.other.1.1.1.1.0", "$JS.API.INFO", "$JS.API.ACCOUNT.PURGE.X", "$SYS.REQ.SERVER.PING", "anything", "$KV.bucket.key", "outbox.other",
}

// consuming are the rights of the reader, which nobody else has.
var consuming = []string{"$JS.API.CONSUMER.INFO.EVENTS.reader", "$JS.API.CONSUMER.MSG.NEXT.EVENTS.reader", "$JS.ACK.EVENTS.reader.1.1.1.1.0"}

// relaying are the rights of the relay alone.
var relaying = []string{
	"events.shop.paid", "outbox.fence.1", "outbox.bell.other", "$JS.API.STREAM.INFO.EVENTS", "$JS.API.STREAM.MSG.GET.EVENTS",
	"$JS.API.STREAM.CREATE.EVENTS", // of the relay only with --create-stream, see below
}

// listening are subscriptions by which a user would see what is for others.
var listening = []string{
	">", "*", "*.>", "events.>", "events.shop.paid", "outbox.>", "outbox.fence.>", "$JS.>", "$JS.API.>", "$JS.ACK.>", "$SYS.>",
	"_INBOX.>", "_INBOX.*.*", "_INBOX_admin.>",
}

// What each user must not do is refused.
func TestRightsInNATSAreNoMoreThanThat(t *testing.T) { //nolint:paralleltest // the passwords are in the environment
	r := newRestricted(t, nil)
	for user, c := range map[string]struct{ publish, subscribe []string }{
		"relay": {
			publish:   slices.Concat(control, consuming, []string{"$JS.API.STREAM.CREATE.EVENTS", "_INBOX_reader.x", "_INBOX.x"}),
			subscribe: append(slices.Clone(listening), "_INBOX_reader.>"),
		},
		"producer": {
			publish:   slices.Concat(control, consuming, relaying, []string{"_INBOX_relay.x", "_INBOX_reader.x", "_INBOX.x"}),
			subscribe: append(slices.Clone(listening), "_INBOX_relay.>", "_INBOX_reader.>", "_INBOX_producer.>", "outbox.bell.public", "outbox.bell.>"),
		},
		"reader": {
			publish:   slices.Concat(control, relaying, []string{"outbox.bell.public", "_INBOX_relay.x", "_INBOX.x"}),
			subscribe: append(slices.Clone(listening), "_INBOX_relay.>", "outbox.bell.public", "outbox.bell.>"),
		},
	} {
		nc, err := nats.Connect(r.as(user), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		denied := func(way, subject, detail string) {
			if err := nc.FlushTimeout(clustertest.Patience); err != nil {
				t.Fatal(err)
			}
			if err := nc.LastError(); err == nil || !strings.HasSuffix(err.Error(), `"`+subject+`"`+detail) {
				t.Errorf("%s may %s %s%s: %v", user, way, subject, detail, err)
			}
		}
		for _, subject := range c.publish {
			if err := nc.Publish(subject, nil); err != nil {
				t.Fatal(err)
			}
			denied("publish", subject, "")
		}
		for _, subject := range c.subscribe {
			for queue, detail := range map[string]string{"": "", "group": ` using queue "group"`} {
				if _, err := nc.QueueSubscribeSync(subject, queue); err != nil {
					t.Fatal(err)
				}
				denied("subscribe", subject, detail)
			}
		}
	}
}
