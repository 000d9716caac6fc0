package deployment_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

var quotedRight = regexp.MustCompile("`([^`]+)`")

// verifies makes sure that the rights of docs/verify.md are enough for a verification, and that it leaves no stream.
func verifies(t *testing.T) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs/verify.md"))
	if err != nil {
		t.Fatal(err)
	}
	var publish []string
	for line := range strings.Lines(string(page)) {
		if right, is := strings.CutPrefix(line, "| publish"); is {
			for _, found := range quotedRight.FindAllStringSubmatch(right, -1) {
				publish = append(publish, found[1])
			}
		}
	}
	if len(publish) < 9 {
		t.Fatalf("the page has %q", publish)
	}
	r := newRestricted(t, func(p *server.Permissions) { p.Publish.Allow = publish })
	p := clustertest.Launch(t, "verify", []string{"DATABASE_URL=" + pgtest.URL(t), "NATS_URL=" + r.as("relay"), "POSTRIDER_NATS_INBOX_PREFIX=_INBOX_relay"},
		"verify", "--duration=0s", "--verbose")
	if status := p.Exit(t); !strings.Contains(p.Stdout(), "lost 0, reordered 0, doubled 0 of") || strings.Contains(p.Stderr(), "Permissions Violation") {
		t.Errorf("status %d: %s%s", status, p.Stdout(), p.Stderr())
	}
	for name := range r.js.StreamNames(t.Context()).Name() {
		if name != "EVENTS" {
			t.Errorf("stream %s is left", name)
		}
	}
}
