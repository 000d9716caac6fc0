package headername_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/headername"
)

// TestNamesOfOthersAreReserved names what clients read, in the cases that they compare by and others.
func TestNamesOfOthersAreReserved(t *testing.T) {
	t.Parallel()
	pattern := regexp.MustCompile(headername.Pattern)
	for name, reserved := range map[string]bool{
		"Status": true, "status": true, "STATUS": true, "Description": true, "dESCRIPTION": true, "KV-Operation": true,
		"Nats-Msg-Id": true, "NATS-x": true, "outbox-": true, "Outbox-Epoch": true,
		"X-Status": false, "Status-Code": false, "Statuses": false, "Descriptions": false, "Nats": false, "traceparent": false, "": false,
	} {
		if got := headername.Reserved(name) != ""; got != reserved {
			t.Errorf("%q is reserved: %t, want %t", name, got, reserved)
		}
		if got := pattern.MatchString(strings.ToLower(name)); got != reserved {
			t.Errorf("%q fits the pattern: %t, want %t", name, got, reserved)
		}
	}
}
