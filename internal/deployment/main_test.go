package deployment_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.yaml.in/yaml/v3"

	"github.com/postrider/postrider/internal/testkit/clustertest"
)

func TestMain(m *testing.M) { clustertest.Main(m) }

const root = "../.."

// read returns a file of the repository.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// readYAML decodes a file of the repository; unknown fields of into are refused.
func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	decodeYAML(t, name, read(t, name), into)
}

func decodeYAML(t *testing.T, name, text string, into any) {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// tool is the path of a program that `make test/deploy` provides.
func tool(t *testing.T, name, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		path, _ = exec.LookPath(name)
	}
	if path != "" {
		return path
	}
	if os.Getenv("POSTRIDER_REQUIRE_TOOLS") == "1" {
		t.Fatalf("%s is missing", name)
	}
	t.Skipf("%s is missing: make test/deploy provides it", name)
	return ""
}

// execute runs a program in a folder and returns its two outputs.
func execute(t *testing.T, folder, program string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = folder
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err = cmd.Run()
	return out.String(), complaints.String(), err
}

// postrider runs the program with these settings to its end.
func postrider(t *testing.T, environment []string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	p := clustertest.Launch(t, "postrider "+strings.Join(args, " "), environment, args...)
	status = p.Exit(t)
	return p.Stdout(), p.Stderr(), status
}

// mustPostrider runs a command that has to succeed.
func mustPostrider(t *testing.T, environment []string, args ...string) string {
	t.Helper()
	stdout, stderr, status := postrider(t, environment, args...)
	if status != 0 {
		t.Fatalf("postrider %s ended with %d: %s", strings.Join(args, " "), status, stderr)
	}
	return stdout
}

// settings are the variables and flags of `postrider run`, as it tells them itself.
func settings(t *testing.T) (variables, flags map[string]bool) {
	t.Helper()
	var all map[string]struct{ Env string }
	if err := json.Unmarshal([]byte(mustPostrider(t, nil, "config", "print", "--json")), &all); err != nil {
		t.Fatal(err)
	}
	variables, flags = map[string]bool{"POSTRIDER_CONFIG": true}, map[string]bool{"config": true}
	for name, s := range all {
		flags[name] = true
		for _, v := range strings.Split(s.Env, ",") {
			variables[v] = true
		}
	}
	if len(variables) < 40 || !variables["DATABASE_URL"] || !variables["POSTRIDER_HTTP_ADDR"] {
		t.Fatalf("postrider names only %d variables", len(variables))
	}
	return variables, flags
}

// statement runs SQL on a connection of its own.
func statement(t *testing.T, address, sql string) error {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	_, err = conn.Exec(t.Context(), sql)
	return err
}

// mustStatement runs SQL that has to succeed.
func mustStatement(t *testing.T, address, sql string) {
	t.Helper()
	if err := statement(t, address, sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// write makes a file that goes with the test.
func write(t *testing.T, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
