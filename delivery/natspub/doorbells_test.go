package natspub_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/delivery/ops/gaps"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/outbox"
)

// Who reads the events' subjects gets no doorbells, which the stream would store.
func TestUnfitStreamsStoreDoorbells(t *testing.T) {
	t.Parallel()
	broker := natstest.Start(t, 1)
	nc := connect(t, broker)
	subject, err := natspub.ParseSubject("outbox.{topic}.{type}")
	if err != nil {
		t.Fatal(err)
	}
	_, err = natspub.EnsureStream(t.Context(), nc, natspub.StreamConfig{Subject: subject, Control: natspub.Control{Prefix: "ctl.fence"}, Create: true, Logger: logger(t)})
	if errors.Is(err, natspub.ErrConfig) && strings.Contains(err.Error(), "outbox.bell.>") {
		return
	}
	bell, err := natspub.NewBell(nc, outbox.BellSubject("public"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bell.Close() }()
	bell.Ring()
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	reader, err := natspub.NewStreamReader(nc, "", natspub.DefaultStream, subject)
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
