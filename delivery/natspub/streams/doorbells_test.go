package streams_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/delivery/ops/gaps"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/outbox"
)

// Who reads the events' subjects gets no doorbells, which the stream would store.
func TestUnfitStreamsStoreDoorbells(t *testing.T) {
	t.Parallel()
	broker := natstest.Start(t, 1)
	nc := connect(t, broker)
	subject, err := wire.ParseSubject("outbox.{topic}.{type}")
	if err != nil {
		t.Fatal(err)
	}
	_, err = streams.EnsureStream(t.Context(), nc, streams.StreamConfig{Subject: subject, Control: streams.Control{Prefix: "ctl.fence"}, Create: true, Logger: logger(t)})
	if errors.Is(err, wire.ErrConfig) && strings.Contains(err.Error(), "outbox.bell.>") {
		return
	}
	bell, err := wire.NewBell(nc, outbox.BellSubject("public"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bell.Close() }()
	bell.Ring()
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	reader, err := streams.NewStreamReader(nc, "", streams.DefaultStream, subject)
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Scan(t.Context(), 1, 10, func(page []gaps.StoredMessage) error {
		t.Errorf("the stream holds %+v", page)
		return nil
	}); err != nil {
		t.Error(err)
	}
}
