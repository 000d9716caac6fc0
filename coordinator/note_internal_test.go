package coordinator

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/postrider/postrider/condition"
)

// A reconciliation is tried several times a second: that it fails is a line of the log once, and again when it fails
// otherwise.
func TestAFailureIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	board := condition.NewBoard(slog.New(slog.DiscardHandler))
	c := &Coordinator{cfg: Config{Board: board}, log: logger}
	for _, err := range []error{nil, errors.New("denied"), errors.New("denied"), errors.New("denied"), errors.New("gone"), nil, nil, errors.New("denied")} {
		c.note(err)
		if (board.Err() == nil) != (err == nil) {
			t.Errorf("after %v the board says %v", err, board.Err())
		}
	}
	if failed, well := strings.Count(log.String(), "reconciliation failed"), strings.Count(log.String(), "succeeds again"); failed != 3 || well != 1 {
		t.Errorf("%d lines of failures and %d of their end, want 3 and 1:\n%s", failed, well, &log)
	}
}
