package faults_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/internal/ledger"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/faultproxy"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/slow"
)

// What `make soak/report` sets besides.
const (
	soakPage      = "POSTRIDER_SOAK_PAGE"      // gets a row at the end of its table
	soakJSON      = "POSTRIDER_SOAK_JSON"      // file that gets the report
	soakCommit    = "POSTRIDER_SOAK_COMMIT"    // what was tried
	soakViolation = "POSTRIDER_SOAK_VIOLATION" // 1: the soak stores an event twice, for the test of its report
)

// soakEnd is the line of the page that rows come before.
const soakEnd = "<!-- end of what make soak/report wrote -->\n"

// soakReport is what became of a soak.
type soakReport struct {
	Date    string         `json:"date"`
	Commit  string         `json:"commit"`
	Seed    uint64         `json:"seed"`
	Storing string         `json:"storing"` // batches, or one by one
	Nodes   int            `json:"nodes"`
	Minutes float64        `json:"minutes"`
	Faults  map[string]int `json:"faults"`       // by name
	Parts   map[string]int `json:"fault_counts"` // by part of the system
	Events  int            `json:"events"`

	Lost      int `json:"lost"`
	Reordered int `json:"reordered"`
	Doubled   int `json:"doubled"`
	Others    int `json:"other_violations"`
	// Takeovers are of partitions whose worker died while nobody else did, in seconds.
	Takeovers       int     `json:"takeovers"`
	TakeoverP50     float64 `json:"takeover_p50_seconds"`
	TakeoverLongest float64 `json:"takeover_longest_seconds"`
	// Kept says that nothing failed at all: neither a violation nor a worker that ended unasked, nor a wait.
	Kept bool `json:"kept"`
}

// others are the violations that have no column.
func others(r ledger.Report) int {
	return r.Phantoms + r.Altered + r.VersionGaps + r.EpochFaults + r.LedgerFaults
}

// row is the report in the page's table.
func (r soakReport) row() string {
	verdict := "kept"
	if !r.Kept {
		verdict = "**broken**"
	}
	p := r.Parts
	return fmt.Sprintf("| %s | %s | %d | %s, %d | %.1f | %d, %d, %d, %d, %d | %d | %d, %d, %d | %.1f, %.1f | %s |\n", r.Date, r.Commit, r.Seed, r.Storing, r.Nodes,
		r.Minutes, p[partWorkers], p[partBrokers], p[partDatabase], p[partLinks], p[partProducers], r.Events, r.Lost, r.Reordered, r.Doubled,
		r.TakeoverP50, r.TakeoverLongest, verdict)
}

var errNoSoakTable = errors.New("has no line " + strings.TrimSpace(soakEnd))

// addRow puts a row at the end of the page's table.
func addRow(page, row string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, after, found := strings.Cut(string(text), soakEnd)
	if !found {
		return fmt.Errorf("%s %w", page, errNoSoakTable)
	}
	return os.WriteFile(page, []byte(before+row+soakEnd+after), 0o644)
}

// write writes the report where that is asked for, also of a soak that failed.
func (s *soak) write(t *testing.T) {
	t.Helper()
	page, file := os.Getenv(soakPage), os.Getenv(soakJSON)
	if page == "" && file == "" || s.start.IsZero() { // or it never began
		return
	}
	found := s.subscriber.Checker.Report()
	s.takeovers.mu.Lock()
	takeovers := s.takeovers.alone
	s.takeovers.mu.Unlock()
	p50, longest := middle(takeovers)
	r := soakReport{
		Date: s.start.UTC().Format(time.DateOnly), Commit: os.Getenv(soakCommit), Seed: s.plan.seed, Storing: s.plan.storing(), Nodes: s.plan.nodes,
		Minutes: min(time.Since(s.start), s.plan.duration).Minutes(), Faults: s.kinds, Parts: s.parts, Events: found.Committed,
		Lost: found.Lost, Reordered: found.Reordered, Doubled: found.Duplicates, Others: others(found),
		Takeovers: len(takeovers), TakeoverP50: p50.Seconds(), TakeoverLongest: longest.Seconds(), Kept: !t.Failed(),
	}
	if page != "" {
		if err := addRow(page, r.row()); err != nil {
			t.Error(err)
		}
	}
	if file == "" {
		return
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		t.Error(err)
	}
}

// violate stores the last event once more.
func (s *soak) violate(t *testing.T) {
	t.Helper()
	js := s.NATS.JetStream(t)
	stream, err := js.Stream(t.Context(), natstest.StreamName)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := stream.GetLastMsgForSubject(t.Context(), "events.>")
	if err != nil {
		t.Fatal(err)
	}
	again := &nats.Msg{Subject: stored.Subject, Data: stored.Data, Header: nats.Header{}}
	for name, values := range stored.Header {
		if strings.HasPrefix(name, "Outbox-") {
			again.Header[name] = values
		}
	}
	if _, err := js.PublishMsg(t.Context(), again); err != nil {
		t.Fatal(err)
	}
}

// A soak adds a row and writes the same numbers as JSON; one that breaks a promise fails, and its row says so.
func TestASoakReports(t *testing.T) {
	t.Parallel()
	slow.Test(t)
	for _, violated := range []bool{false, true} {
		status, row, r := soakedFor(t, 20*time.Second, violated)
		if row != r.row() {
			t.Errorf("the row is\n%swant, by the JSON,\n%s", row, r.row())
		}
		if r.Events == 0 || r.Seed != 5 || r.Storing != "one by one" || r.Nodes != 1 || r.Commit != "c0ffee" || len(r.Faults) == 0 || len(r.Parts) == 0 {
			t.Errorf("the report is %+v", r)
		}
		doubled := 0
		if violated {
			doubled = 1
		}
		if r.Kept == violated || (status != 0) != violated || r.Doubled != doubled {
			t.Errorf("status %d and %+v, violated: %v", status, r, violated)
		}
	}
}

// soakedFor runs a soak as make does, with a page that has a row already, and returns its status and what it wrote.
func soakedFor(t *testing.T, d time.Duration, violated bool) (status int, row string, r soakReport) {
	t.Helper()
	folder := t.TempDir()
	page, file := filepath.Join(folder, "page.md"), filepath.Join(folder, "soak.json")
	const earlier, after = "| earlier |\n", "\nAfter.\n"
	if err := os.WriteFile(page, []byte(earlier+soakEnd+after), 0o600); err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestSoak$", "-test.v")
	cmd.Env = append(os.Environ(), soakDuration+"="+d.String(), soakSeed+"=5", soakNodes+"=1", soakBatches+"=0",
		soakPage+"="+page, soakJSON+"="+file, soakCommit+"=c0ffee")
	if violated {
		cmd.Env = append(cmd.Env, soakViolation+"=1")
	}
	output, err := cmd.CombinedOutput()
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	row, begun := strings.CutPrefix(string(text), earlier)
	row, ended := strings.CutSuffix(row, soakEnd+after)
	if object, err := os.ReadFile(file); err != nil || json.Unmarshal(object, &r) != nil || !begun || !ended {
		t.Fatalf("the page is %q, the report %q, %v; the soak said\n%s", text, object, err, output)
	}
	return cmd.ProcessState.ExitCode(), row, r
}

// A soak that ends early tells how long it ran, and counts no fault that did not strike.
func TestASoakTellsWhatWas(t *testing.T) {
	checker, err := ledger.NewChecker(ledger.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := &soak{
		stage: &stage{subscriber: &clustertest.Subscriber{Checker: checker}, takeovers: &takeovers{}}, plan: soakPlan{duration: time.Hour},
		strikes: &strikes{start: time.Now().Add(-time.Minute), kinds: map[string]int{}, parts: map[string]int{}},
	}
	for name, struck := range map[string]bool{"struck": true, "missed": s.await(t, &faultproxy.Trigger{}, time.Millisecond)} {
		s.strike(t, fault{name: name, part: partLinks, strike: func(*testing.T) bool { return struck }})
	}
	file := filepath.Join(t.TempDir(), "soak.json")
	t.Setenv(soakJSON, file)
	s.write(t)
	var r soakReport
	if object, err := os.ReadFile(file); err != nil || json.Unmarshal(object, &r) != nil {
		t.Fatalf("%v: %s", err, object)
	}
	if r.Minutes < 1 || r.Minutes > 30 || len(r.Faults) != 1 || r.Faults["struck"] != 1 || r.Parts[partLinks] != 1 {
		t.Errorf("the report is %+v", r)
	}
}

// A page without a table gets no row.
func TestARowWantsATable(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("no table\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := addRow(page, "row\n"); !errors.Is(err, errNoSoakTable) {
		t.Errorf("%v", err)
	}
}
