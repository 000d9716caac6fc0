package wire_test

import (
	"errors"
	"testing"

	"github.com/postrider/postrider/delivery/natspub/wire"
)

func TestReservedHeadersAreNotForwarded(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Nats-Msg-Id", "nats-rollup", "Outbox-Epoch", "", "a b", "a:b", "a\r\nb"} {
		if err := (wire.Headers{Forward: []string{name}}).Validate(); !errors.Is(err, wire.ErrConfig) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
