package condition_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/condition"
)

// The runbook has a row for each reason, operations.md says how many there are, and the API's description lists them.
func TestReasonsAreDocumented(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var want []string
	for _, r := range condition.Reasons() {
		want = append(want, string(r))
	}
	_, section, _ := strings.Cut(read("../docs/runbook.md"), "\n## PostriderDeliveryPaused\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var rows []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+`) \\|").FindAllStringSubmatch(section, -1) {
		rows = append(rows, strings.Split(strings.ReplaceAll(row[1], "`", ""), ", ")...)
	}
	listed := regexp.MustCompile(`(?s)\n    Reason:\n.*?enum: \[([^\]]+)\]`).FindStringSubmatch(read("../ui/api/openapi.yaml"))
	if listed == nil {
		t.Fatal("openapi.yaml does not list the reasons")
	}
	for name, got := range map[string][]string{"docs/runbook.md": rows, "openapi.yaml": strings.Split(listed[1], ", ")} {
		if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("%s has the reasons %v; there are %v", name, got, want)
		}
	}
	if !strings.Contains(read("../docs/operations.md"), "are fifteen") || len(want) != 15 {
		t.Errorf("docs/operations.md counts the reasons otherwise: there are %d", len(want))
	}
}
