package localpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ErrNoBinaries means that no usable PostgreSQL server is installed. Its message names the ways out.
var ErrNoBinaries = errors.New("localpg: no PostgreSQL server binaries found: install them " +
	"(apt-get install postgresql, or your system's package) or give --database-url of a server that runs")

// minimumMajor is the oldest release that the schema of the outbox supports.
const minimumMajor = 14

type binaries struct {
	dir   string
	major int
}

func (b binaries) path(program string) string { return filepath.Join(b.dir, program) }

// distributionFolders returns the places where packages put server binaries that are not in PATH.
func distributionFolders() []string {
	return []string{
		"/usr/lib/postgresql/*/bin",            // Debian, Ubuntu
		"/usr/pgsql-*/bin",                     // packages of the PostgreSQL project for Red Hat
		"/usr/lib/postgresql*/bin",             // SUSE, Gentoo
		"/usr/libexec/postgresql*",             // Alpine
		"/usr/local/pgsql/bin",                 // built from source
		"/opt/homebrew/opt/postgresql@*/bin",   // Homebrew on Apple silicon
		"/usr/local/opt/postgresql@*/bin",      // Homebrew on Intel
		"/Applications/Postgres.app/*/*/*/bin", // Postgres.app
	}
}

// findBinaries picks the server to run. wantMajor is the release a data directory asks for, 0 for any.
func findBinaries(ctx context.Context, binDir string, wantMajor int) (binaries, error) {
	if binDir != "" {
		found, err := inspectFolder(ctx, binDir)
		switch {
		case err == nil:
			return found, found.suits(wantMajor)
		case ctx.Err() != nil:
			return binaries{}, fmt.Errorf("localpg: look for server binaries: %w", ctx.Err())
		default:
			return binaries{}, fmt.Errorf("%w (BinDir: %w)", ErrNoBinaries, err)
		}
	}
	candidates := installedBinaries(ctx)
	if ctx.Err() != nil {
		return binaries{}, fmt.Errorf("localpg: look for server binaries: %w", ctx.Err())
	}
	for _, candidate := range candidates {
		if candidate.suits(wantMajor) == nil {
			return candidate, nil
		}
	}
	if len(candidates) > 0 {
		return binaries{}, candidates[0].suits(wantMajor)
	}
	return binaries{}, ErrNoBinaries
}

// suits returns an error unless the server can open a data directory of release wantMajor (0: a new one).
func (b binaries) suits(wantMajor int) error {
	switch {
	case wantMajor != 0 && b.major != wantMajor:
		return fmt.Errorf("localpg: the data directory belongs to PostgreSQL %d, installed in %s is %d: "+
			"install release %d or give --database-url", wantMajor, b.dir, b.major, wantMajor)
	case b.major < minimumMajor:
		return fmt.Errorf("%w: %s holds release %d, needed is %d or newer", ErrNoBinaries, b.dir, b.major, minimumMajor)
	}
	return nil
}

// installedBinaries lists every server found: that of PATH first, then the others, newest first.
func installedBinaries(ctx context.Context) []binaries {
	var first, others []binaries
	known := map[string]bool{}
	consider := func(list *[]binaries, dir string) {
		resolved, err := filepath.EvalSymlinks(dir)
		if err != nil || known[resolved] {
			return
		}
		known[resolved] = true
		if found, err := inspectFolder(ctx, resolved); err == nil {
			*list = append(*list, found)
		}
	}
	if program, err := exec.LookPath("initdb"); err == nil {
		if resolved, err := filepath.EvalSymlinks(program); err == nil {
			consider(&first, filepath.Dir(resolved))
		}
	}
	for _, pattern := range distributionFolders() {
		matches, _ := filepath.Glob(pattern) // The only error is a malformed pattern.
		for _, dir := range matches {
			consider(&others, dir)
		}
	}
	slices.SortStableFunc(others, func(a, b binaries) int { return cmp.Compare(b.major, a.major) })
	return append(first, others...)
}

var versionPattern = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// inspectFolder checks that dir holds both programs and asks the server for its release.
func inspectFolder(ctx context.Context, dir string) (binaries, error) {
	for _, program := range []string{"initdb", "postgres"} {
		if info, err := os.Stat(filepath.Join(dir, program)); err != nil {
			return binaries{}, err
		} else if info.IsDir() || info.Mode()&0o111 == 0 {
			return binaries{}, fmt.Errorf("%s is not a program", filepath.Join(dir, program))
		}
	}
	output, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return binaries{}, fmt.Errorf("ask %s for its version: %w", dir, err)
	}
	match := versionPattern.FindSubmatch(output)
	if match == nil {
		return binaries{}, fmt.Errorf("%s answers %q", dir, strings.TrimSpace(string(output)))
	}
	major, err := strconv.Atoi(string(match[1]))
	if err != nil {
		return binaries{}, fmt.Errorf("version of %s: %w", dir, err)
	}
	return binaries{dir: dir, major: major}, nil
}
