package recipes_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// recipes are the programs; command makes the command line of one, or ends the test where the language is missing.
var recipes = []struct {
	name, file string
	command    func(t *testing.T, file string) []string
}{
	{"node", "node/append.mjs", node},
	{"drizzle", "node/drizzle.mjs", node},
	{"psycopg2", "python/append.py", psycopg2},
	{"psycopg3", "python/append.py", psycopg3},
	{"java", "java/Append.java", java},
	{"ruby", "ruby/append.rb", ruby},
	{"php", "php/append.php", php},
}

// missing ends the test: in CI it fails.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("POSTRIDER_REQUIRE_TOOLS") == "1" {
		t.Fatalf("%s is missing", what)
	}
	t.Skipf("%s is missing: make test/recipes installs it", what)
}

// needs looks for a program of one of these names that does what the arguments ask, if any are given.
func needs(t *testing.T, what string, names []string, args ...string) string {
	t.Helper()
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err == nil && (len(args) == 0 || exec.CommandContext(t.Context(), path, args...).Run() == nil) {
			return path
		}
	}
	missing(t, what)
	return ""
}

func needsFile(t *testing.T, what, path string) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		missing(t, what)
	}
}

// node runs a copy beside the modules that make installs: Node looks for these in the folder of the program.
func node(t *testing.T, file string) []string {
	t.Helper()
	modules, err := filepath.Abs("../../bin/tools/recipes/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	program := needs(t, "Node", []string{"node"})
	for _, module := range []string{"pg", "drizzle-orm"} {
		needsFile(t, "Node's module "+module, filepath.Join(modules, module))
	}
	folder := t.TempDir()
	if err := os.Symlink(modules, filepath.Join(folder, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return []string{program, write(t, filepath.Join(folder, filepath.Base(file)), read(t, file))}
}

// Debian's clients are for Debian's Python, which may not be the first in the path.
var pythons = []string{"python3", "/usr/bin/python3"}

func psycopg2(t *testing.T, file string) []string {
	t.Helper()
	return []string{needs(t, "psycopg2 of Python", pythons, "-c", "import psycopg2"), file}
}

// psycopg3 makes the one change that the recipe speaks of.
func psycopg3(t *testing.T, file string) []string {
	t.Helper()
	program := needs(t, "psycopg 3 of Python", pythons, "-c", "import psycopg")
	text := strings.Replace(read(t, file), "\nimport psycopg2\n", "\nimport psycopg as psycopg2\n", 1)
	return []string{program, write(t, filepath.Join(t.TempDir(), filepath.Base(file)), text)}
}

// java compiles the recipe in memory. The first compiler alone takes half the time for so short a run.
func java(t *testing.T, file string) []string {
	t.Helper()
	jars := []string{"/usr/share/java/postgresql.jar", "/usr/share/java/gson.jar"}
	for _, jar := range jars {
		needsFile(t, jar, jar)
	}
	needs(t, "a JDK", []string{"javac"})
	return []string{"java", "-XX:TieredStopAtLevel=1", "-cp", strings.Join(jars, ":"), file}
}

func ruby(t *testing.T, file string) []string {
	t.Helper()
	return []string{needs(t, "pg of Ruby", []string{"ruby"}, "-r", "pg", "-e", ""), file}
}

func php(t *testing.T, file string) []string {
	t.Helper()
	return []string{needs(t, "PDO_pgsql of PHP", []string{"php"}, "-r", `exit(extension_loaded("pdo_pgsql") ? 0 : 1);`), file}
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
