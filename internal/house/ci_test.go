package house_test

import (
	"go/ast"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The script that divides packages for `make test` leaves out those without tests, since a run of nothing else counts as a failure,
// and none of the others.
func TestEachPackageWithTestsIsRunOnce(t *testing.T) {
	t.Parallel()
	list := func(folder, kind string) map[string]bool {
		cmd := exec.CommandContext(t.Context(), filepath.Join(root, ".ci", "packages"), folder, kind, "./...")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", cmd, err)
		}
		found := map[string]bool{}
		for _, name := range strings.Fields(string(out)) {
			found[name] = true
		}
		return found
	}
	for _, folder := range modules(t) {
		relative, err := filepath.Rel(root, folder)
		if err != nil {
			t.Fatal(err)
		}
		all, concurrent, sequential := list(relative, "all"), list(relative, "concurrent"), list(relative, "sequential")
		for name := range all {
			if tests, err := filepath.Glob(filepath.Join(name, "*_test.go")); err != nil || len(tests) == 0 {
				t.Errorf("%s has no tests (%v)", name, err)
			}
			if concurrent[name] == sequential[name] {
				t.Errorf("%s is run under both kinds, or under none", name)
			}
		}
		if len(all) == 0 || len(concurrent)+len(sequential) != len(all) {
			t.Errorf("module %s: %d packages have tests, %d are concurrent and %d sequential", folder, len(all), len(concurrent), len(sequential))
		}
	}
}

// Tests of processes are named to the raced run, which leaves them out of every package, and to the other one, which runs
// them in their own.
func TestNoTestBearsTheNameOfOneOfProcesses(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), filepath.Join(root, ".ci", "packages"), ".", "processtests", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	pattern := regexp.MustCompile(strings.TrimSpace(string(out)))
	places := map[string][]string{}
	sources(t, func(name string, _ *token.FileSet, file *ast.File) {
		if within(name, "tools") || within(name, "examples") { // other modules
			return
		}
		for _, declared := range file.Decls {
			if f, ok := declared.(*ast.FuncDecl); ok && f.Recv == nil && pattern.MatchString(f.Name.Name) {
				places[f.Name.Name] = append(places[f.Name.Name], name)
			}
		}
	})
	if len(places) < 10 {
		t.Errorf("there are %d tests of processes", len(places))
	}
	for name, paths := range places {
		if len(paths) > 1 || !strings.HasPrefix(filepath.Base(paths[0]), "cluster_") {
			t.Errorf("%s is a test of processes, and is in %s", name, strings.Join(paths, ", "))
		}
	}
}

// Packages that cannot be listed are no packages that need no servers.
func TestServedPackagesMustBeListed(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]string{"fails": "exit 3", "finds none": "exit 0"} {
		folder := t.TempDir()
		script := "#!/bin/sh\ncase \"$*\" in *containers*) " + second + ";; esac\necho /lease\n"
		if err := os.WriteFile(filepath.Join(folder, "go"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), filepath.Join(root, ".ci", "packages"), ".", "served", "./...")
		cmd.Env = append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err == nil {
			t.Errorf("where go list %s the script is content: %s", name, out)
		}
	}
}

// A file that git tracks and nobody finds does not hide what is wrong with another one.
func TestHouseSeesPastDeletedFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	script, err := os.ReadFile(filepath.Join(root, ".ci", "house"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(folder, ".ci"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{".ci/house": string(script), "gone": "", "wrong": "// TO" + "DO\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", "cd \"$1\" && git init -q && git add . && rm gone && ! bash .ci/house", "sh", folder).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "left to do") {
		t.Errorf("%v: %s", err, out)
	}
}
