package pairs_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// marks are the letters of the table, and what they say.
var marks = []struct {
	permits permits
	letter  string
	says    string
}{
	{moves, "o", "the order of partitions begins anew; that of streams goes on"},
	{repeats, "r", "what the stream lost comes again, once and in order, under the same event ids"},
	{forgets, "f", "an alarm tells of published events that the database forgot; they stay in the stream"},
	{again, "g", "replayed events come again, each once, under a generation of their own"},
	{parks, "p", "what is parked comes later than its partition's other events, in its stream's order"},
	{reports, "l", "what the stream lost is reported, and stays lost"},
	{holds, "w", "nothing that is held comes before it may, and all of it then"},
}

// meetings are the letters of what holds in some pairs alone.
var meetings = []struct{ letter, says string }{
	{isRefused, "the second is refused while the first lasts"},
	{"y", "the second waits until the first has ended"},
	{"h", "what retention removed from the history is not published again when the stream loses it"},
	{"n", "the alarm may be missing: the stream lost the events that would tell"},
}

// cell is the state of a pair.
func cell(first, second operation) string {
	var text strings.Builder
	for _, m := range marks {
		if m.permits == moves && met(first, second) == isRefused {
			continue
		}
		if m.permits == repeats && (first.permits|second.permits)&reports != 0 {
			continue
		}
		if (first.permits|second.permits)&m.permits != 0 {
			text.WriteString(m.letter)
		}
	}
	text.WriteString(met(first, second))
	if text.Len() == 0 {
		return "="
	}
	return text.String()
}

// table is what docs/guarantees.md tells.
func table() string {
	list := operations()
	var text strings.Builder
	text.WriteString("| First, and still lasting |") // cells without spaces, so that they count for no words
	for i := range list {
		fmt.Fprintf(&text, "%d|", i+1)
	}
	text.WriteString("\n|---|" + strings.Repeat("---|", len(list)) + "\n")
	for i, first := range list {
		fmt.Fprintf(&text, "|%d %s|", i+1, first.name)
		for _, second := range list {
			text.WriteString(cell(first, second) + "|")
		}
		text.WriteString("\n")
	}
	text.WriteString("\n- `=`: everything holds\n")
	for _, m := range marks {
		fmt.Fprintf(&text, "- `%s`: %s\n", m.letter, m.says)
	}
	for _, m := range meetings {
		fmt.Fprintf(&text, "- `%s`: %s\n", m.letter, m.says)
	}
	return text.String()
}

// The table in the documentation is the one that is tried: a new operation grows a row.
func TestTheTableIsTold(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../../docs/guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(document), table()) {
		t.Errorf("docs/guarantees.md does not hold this table of pairs:\n\n%s", table())
	}
	if all := fmt.Sprintf("# all %d\n", len(operations())*len(operations())); !strings.Contains(string(document), all) {
		t.Errorf("docs/guarantees.md does not tell of %q pairs", all)
	}
}

// Whatever chooses the pairs of the short form, every operation occurs in them.
func TestTheShortFormHasEveryOperation(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"", "1/3", "2/3", "3/3"} {
		found := map[string]bool{}
		for pair := range short(operations(), value) {
			found[pair[0]], found[pair[1]] = true, true
		}
		for _, o := range operations() {
			if !found[o.name] {
				t.Errorf("%s=%q leaves %s out", chosenBy, value, o.name)
			}
		}
	}
}
