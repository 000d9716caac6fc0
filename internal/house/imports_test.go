package house_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/postrider/postrider"

// mayImport is who may import what of ours. A package's sub-packages follow the
// rule of the longest prefix. Test kits are for tests alone.
var mayImport = map[string][]string{
	"codec":            {},
	"partition":        {},
	"heartbeat":        {"partition", "internal/sqlfile"},
	"lease":            {"partition", "internal/sqlfile"},
	"coordinator":      {"partition", "heartbeat", "lease"},
	"delivery":         {"partition", "lease", "outbox", "internal/arena", "internal/sqlfile"},
	"delivery/natspub": {"delivery", "delivery/gaps", "partition", "lease", "codec", "internal/arena"},
	"delivery/admin":   {"partition", "delivery", "internal/maintenance", "internal/sqlfile"},
	"delivery/replay":  {"partition", "delivery", "internal/maintenance", "internal/sqlfile"},
	"delivery/gaps":    {"partition", "delivery", "internal/maintenance", "internal/sqlfile"},
	"delivery/tracing": {"delivery", "lease"},
	"outbox":           {"partition", "internal/sqlfile"},
	"outbox/schema":    {"partition", "internal/sqlfile"},
	"outbox/importer":  {"outbox", "partition", "internal/sqlfile"},
	"inbox":            {"internal/sqlfile", "codec"},
	"projection":       {"internal/sqlfile"},
	"ui":               {"partition", "heartbeat", "lease", "coordinator", "delivery", "outbox", "web"},
	"web":              {},
	"cmd":              {"*"},
	"docs/model":       {},
	"internal/arena":   {},
	"internal/bench": {
		"delivery", "delivery/natspub", "outbox", "outbox/schema", "partition", "internal/buildinfo", "internal/ledger", "internal/localnats",
		"internal/localpg", "internal/loopback",
	},
	"internal/buildinfo":   {},
	"internal/deployment":  {},
	"internal/faults":      {},
	"internal/house":       {},
	"internal/ledger":      {"partition", "codec"},
	"internal/localnats":   {"internal/loopback"},
	"internal/localpg":     {"internal/loopback"},
	"internal/loopback":    {},
	"internal/maintenance": {"partition", "internal/sqlfile"},
	"internal/scaling":     {},
	"internal/sqlfile":     {},
	"internal/testkit":     {"*"},
}

// testsAlone are the packages that no production code may import.
var testsAlone = []string{"internal/testkit", "internal/house", "internal/faults"}

// owners are third-party packages with the only packages of ours that may
// import them outside tests.
var owners = map[string][]string{
	"go.uber.org/fx":                 {"cmd"},
	"go.uber.org/dig":                {"cmd"},
	"github.com/alecthomas/kong":     {"cmd"},
	"github.com/nats-io/nats.go":     {"delivery/natspub", "inbox", "projection", "cmd", "internal/bench", "internal/ledger", "internal/testkit"},
	"github.com/nats-io/nats-server": {"internal/localnats", "internal/testkit"},
	"github.com/klauspost/compress":  {"codec", "ui"},
	"github.com/pressly/goose":       {"outbox/schema"},
	"github.com/jackc/pgx":           {"heartbeat", "lease", "delivery", "outbox", "inbox", "projection", "cmd", "internal"},
	"github.com/testcontainers":      {"internal/testkit"},
	"testing":                        {"internal/testkit", "inbox/inboxtest"},
	// Packages make spans by the API alone; how they are exported is the program's.
	"go.opentelemetry.io/otel":           {"delivery/tracing", "cmd"},
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

func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Imports,TestImports,XTestImports", module+"/...")
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
		if strings.HasPrefix(name, "examples/") {
			continue // examples use the public API like anybody else; the compiler keeps internal out
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
				if within(ours, kit) && !within(name, kit) {
					t.Errorf("%s imports %s, which is for tests alone", name, ours)
				}
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
// package: the command hands the one a function of the other.
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
	for _, pair := range [][2]string{{"coordinator", "delivery"}, {"delivery", "coordinator"}, {"delivery/natspub", "coordinator"}} {
		if reaches(module+"/"+pair[0], module+"/"+pair[1]) {
			t.Errorf("%s reaches %s", pair[0], pair[1])
		}
	}
}
