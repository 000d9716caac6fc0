package house_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/postrider/postrider"

// mayImport is who may import what of ours. A package's sub-packages follow the
// rule of the longest prefix. Test kits are for tests alone.
var mayImport = map[string][]string{
	"message":                  {},
	"message/codec":            {},
	"condition":                {},
	"partition":                {},
	"heartbeat":                {"condition", "partition", "internal/buildinfo", "internal/pg"},
	"lease":                    {"partition", "internal/pg"},
	"coordinator":              {"condition", "partition", "heartbeat", "lease"},
	"delivery":                 {"partition", "lease"},
	"delivery/loop":            {"condition", "delivery", "partition", "lease"},
	"delivery/shape":           {"delivery", "internal/headername"},
	"delivery/rewrite":         {"delivery/shape"},
	"delivery/pgstore":         {"condition", "delivery", "partition", "lease", "outbox/capture", "internal/arena", "internal/pg"},
	"delivery/natspub":         {"delivery", "delivery/ops/gaps", "partition", "lease", "message"},
	"delivery/natspub/streams": {"delivery/natspub/wire", "delivery/ops/gaps", "internal/headername", "internal/unseen", "message", "partition"},
	"delivery/natspub/wire":    {"condition", "delivery", "internal/arena", "internal/headername", "message", "partition"},
	"delivery/ops":             {"partition", "delivery", "delivery/ops/maintenance", "internal/pg"},
	"delivery/ops/contracts":   {"delivery", "delivery/ops/maintenance", "internal/pg", "message"},
	"delivery/ops/parts":       {"delivery/ops/maintenance", "internal/pg", "outbox/importer"},
	"delivery/ops/replay":      {"partition", "delivery", "delivery/ops/maintenance", "internal/pg"},
	"delivery/ops/resize":      {"partition", "lease", "delivery", "delivery/ops/maintenance", "internal/pg"},
	"delivery/ops/gaps":        {"partition", "delivery", "delivery/ops/maintenance", "internal/pg"},
	"delivery/tracing":         {"delivery", "lease"},
	"delivery/walbell":         {"partition", "internal/pg"},
	"outbox":                   {"partition", "internal/headername", "internal/pg"},
	"outbox/schema":            {"partition", "internal/pg"},
	"outbox/capture":           {"internal/pg"},
	"outbox/importer":          {"outbox", "partition", "internal/pg"},
	"inbox":                    {"internal/closed", "internal/pg", "internal/unseen", "message"},
	"projection":               {"internal/closed", "internal/pg", "message"},
	"ui":                       {"lease", "delivery", "web", "ui/act", "ui/api", "ui/pages", "ui/source"},
	"ui/act":                   {"partition", "lease", "delivery/ops", "ui/source"},
	"ui/api":                   {"partition", "lease", "delivery/ops", "ui/act", "ui/source"},
	"ui/pages":                 {"partition", "lease", "message", "delivery/ops", "web", "ui/act", "ui/source"},
	"ui/source":                {"condition", "partition", "heartbeat", "lease", "delivery", "web"},
	"web":                      {},
	"worker": {
		"condition", "coordinator", "delivery", "heartbeat", "internal/closed", "internal/pg", "lease", "outbox", "partition", "ui",
	},
	"cmd": {"*"},

	"internal/arena":           {},
	"internal/buildinfo":       {},
	"internal/closed":          {},
	"internal/chaos":           {"internal/ledger", "internal/loopback", "lease", "outbox", "partition"},
	"internal/deployment":      {},
	"internal/faults":          {},
	"internal/headername":      {},
	"internal/house":           {},
	"internal/ledger":          {"partition", "message"},
	"internal/localnats":       {"internal/loopback"},
	"internal/localpg":         {"internal/loopback"},
	"internal/loopback":        {},
	"delivery/ops/maintenance": {"partition", "internal/pg"},
	"internal/pairs":           {},
	"internal/pg":              {},
	"internal/scaling":         {},
	"internal/testkit":         {"*"},
	"internal/unseen":          {"internal/headername"},

	"tools/contracts": {},
	"tools/documents": {},
	"tools/bench":     {"tools/bench/measure"},
	"tools/bench/measure": {
		"delivery", "delivery/natspub", "outbox", "outbox/schema", "partition", "internal/ledger", "internal/localnats", "message",
		"internal/localpg", "internal/loopback",
	},
	"tools/matrix":       {},
	"tools/model":        {"tools/model/search"},
	"tools/model/search": {},
	"tools/model/walk":   {"tools/model/search"},
	"tools/mutants":      {"internal/testkit/part"},
	"tools/peers":        {"tools/bench/measure"},
	"tools/testreport":   {},
}

// testsAlone are the packages that no production code may import. What is in tools may: only people who work on
// Postrider run it.
var testsAlone = []string{"internal/testkit", "internal/house", "internal/faults", "internal/pairs"}

// owners (ADR 9) are third-party packages with the only packages of ours that may
// import them outside tests.
var owners = map[string][]string{
	"go.uber.org/fx":                 {"cmd"},
	"go.uber.org/dig":                {"cmd"},
	"github.com/alecthomas/kong":     {"cmd", "tools/bench"},
	"github.com/nats-io/nats.go":     {"delivery/natspub", "message", "inbox", "projection", "worker", "cmd", "internal/closed", "internal/ledger", "internal/unseen", "internal/testkit", "tools/bench/measure", "tools/peers"},
	"github.com/nats-io/nats-server": {"internal/localnats", "internal/testkit"},
	"github.com/klauspost/compress":  {"message/codec", "ui"},
	"github.com/pressly/goose":       {"outbox/schema"},
	"github.com/jackc/pgx":           {"condition", "heartbeat", "lease", "delivery", "outbox", "inbox", "projection", "worker", "cmd", "internal", "tools/bench/measure", "tools/peers"},
	"github.com/jackc/puddle":        {"internal/closed"},
	"github.com/jackc/pglogrepl":     {"delivery/walbell"},
	"github.com/testcontainers":      {"internal/testkit"},
	"testing":                        {"internal/testkit", "inbox/inboxtest", "outbox/outboxtest"},
	// Packages make spans by the API alone; how they are exported is the program's.
	"go.opentelemetry.io/otel":           {"delivery/tracing", "worker", "cmd"},
	"go.opentelemetry.io/otel/sdk":       {"cmd"},
	"go.opentelemetry.io/otel/exporters": {"cmd"},
	"go.opentelemetry.io/proto":          {"internal/testkit"},
	"google.golang.org/grpc":             {"internal/testkit"},
}

type listed struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// modules are the folders with a module of packages, the product's first.
func modules(t *testing.T) []string {
	t.Helper()
	folders := []string{root}
	for _, pattern := range []string{"*", "*/*"} {
		found, err := filepath.Glob(filepath.Join(root, pattern, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range found {
			if folder := filepath.Dir(name); folder != filepath.Join(root, "deploy", "tools") { // versions of programs, no packages
				folders = append(folders, folder)
			}
		}
	}
	return folders
}

// packages are those of all modules.
func packages(t *testing.T) (all []listed) {
	t.Helper()
	for _, folder := range modules(t) {
		all = append(all, packagesOf(t, folder)...)
	}
	return all
}

func packagesOf(t *testing.T, folder string) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "-C", folder, "list", "-e", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var list []listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		list = append(list, p)
	}
}

func within(name, folder string) bool { return name == folder || strings.HasPrefix(name, folder+"/") }

// rule finds the entry of the longest folder that holds the package.
func rule(name string) (allowed []string, found bool) {
	for folder := name; folder != "."; folder = path.Dir(folder) {
		if allowed, found = mayImport[folder]; found {
			return allowed, true
		}
	}
	return nil, false
}

func TestImportsFollowTheTable(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		if within(name, "examples") {
			checkExample(t, name, p.Imports)
			continue
		}
		allowed, found := rule(name)
		if !found {
			t.Errorf("package %s has no line in the import table", name)
			continue
		}
		for _, imported := range p.Imports {
			ours, isOurs := strings.CutPrefix(imported, module+"/")
			if !isOurs {
				checkThirdParty(t, name, imported)
				continue
			}
			own := within(ours, name) || within(name, ours) && !strings.Contains(ours, "/")
			if !own && !slices.Contains(allowed, "*") && !slices.ContainsFunc(allowed, func(a string) bool { return within(ours, a) }) {
				t.Errorf("%s must not import %s", name, ours)
			}
			for _, kit := range testsAlone {
				if within(ours, kit) && !within(name, kit) && !within(name, "tools") {
					t.Errorf("%s imports %s, which is for tests alone", name, ours)
				}
			}
		}
	}
}

// Who uses Postrider gets nothing of what its developers run, and nothing of the examples.
func TestTheProductKnowsNeitherToolsNorExamples(t *testing.T) {
	t.Parallel()
	for _, p := range packagesOf(t, root) {
		for _, imported := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if name, ours := strings.CutPrefix(imported, module+"/"); ours && (within(name, "tools") || within(name, "examples")) {
				t.Errorf("%s imports %s", p.ImportPath, imported)
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), module+"/") {
		t.Errorf("go.mod needs another module of this repository")
	}
}

// What make tests, vets and lints is every module.
func TestMakeKnowsEveryModule(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^MODULES \?= .*\)\),([^,]*),\.\)$`).FindStringSubmatch(string(text))
	if line == nil {
		t.Fatal("the Makefile has no MODULES")
	}
	var want []string
	for _, folder := range modules(t) {
		name, err := filepath.Rel(root, folder)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, filepath.ToSlash(name))
	}
	if named := strings.Fields(line[1]); !slices.Equal(slices.Sorted(slices.Values(named)), slices.Sorted(slices.Values(want))) {
		t.Errorf("the Makefile's MODULES are %v, the repository's %v", named, want)
	}
}

// checkExample sees to it that an example uses the public API like anybody else. The compiler does not: its path lies
// below the product's.
func checkExample(t *testing.T, name string, imports []string) {
	t.Helper()
	for _, imported := range imports {
		for _, kept := range []string{"internal", "cmd", "tools"} {
			if ours, isOurs := strings.CutPrefix(imported, module+"/"); isOurs && within(ours, kept) {
				t.Errorf("%s must not import %s: others cannot", name, ours)
			}
		}
	}
}

func checkThirdParty(t *testing.T, name, imported string) {
	t.Helper()
	for dependency, folders := range owners {
		if within(imported, dependency) && !slices.ContainsFunc(folders, func(f string) bool { return within(name, f) }) {
			t.Errorf("%s must not import %s; only %v may", name, imported, folders)
		}
	}
}

// The coordinator and delivery never see each other, not even through a third
// package: package worker hands the one a function of the other. Nor do the loop, its store and its publisher.
func TestCoordinatorAndDeliveryAreApart(t *testing.T) {
	t.Parallel()
	graph := map[string][]string{}
	for _, p := range packages(t) {
		graph[p.ImportPath] = p.Imports
	}
	reaches := func(from, to string) bool {
		seen, next := map[string]bool{}, []string{from}
		for len(next) > 0 {
			p := next[0]
			next = next[1:]
			for _, imported := range graph[p] {
				if within(imported, to) {
					return true
				}
				if !seen[imported] {
					seen[imported] = true
					next = append(next, imported)
				}
			}
		}
		return false
	}
	for _, pair := range [][2]string{
		{"coordinator", "delivery"},
		{"delivery", "coordinator"},
		{"delivery/natspub", "coordinator"},
		{"delivery/loop", "delivery/pgstore"},
		{"delivery/loop", "delivery/natspub"},
		{"delivery/pgstore", "delivery/loop"},
		{"delivery/pgstore", "delivery/natspub"},
		{"delivery/natspub", "delivery/loop"},
	} {
		if reaches(module+"/"+pair[0], module+"/"+pair[1]) {
			t.Errorf("%s reaches %s", pair[0], pair[1])
		}
	}
}
