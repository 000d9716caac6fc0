package recipes_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// consumers are the programs that keep what the inbox promises, by its SQL functions alone.
var consumers = []struct {
	name, file string
	command    func(t *testing.T, file string) []string
}{
	{"node", "node/consume.mjs", node},
	{"psycopg2", "python/consume.py", psycopg2},
	{"psycopg3", "python/consume.py", psycopg3},
}

// Each consumer passes every scene of the judge, which is run as its users run it.
func TestConsumersKeepWhatTheInboxPromises(t *testing.T) {
	t.Parallel()
	judge := filepath.Join(t.TempDir(), "inboxtest")
	if output, err := exec.CommandContext(t.Context(), "go", "build", "-o", judge, "../inboxtest").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for _, c := range consumers {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			command := append([]string{"-database", pgtest.URL(t)}, c.command(t, c.file)...)
			if output, err := exec.CommandContext(t.Context(), judge, command...).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, output)
			}
		})
	}
}
