package localpg

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ErrForeignDataDir means that a data directory was not made by this package, which therefore leaves it alone.
var ErrForeignDataDir = errors.New("localpg: the data directory is not empty and was not created by Postrider: " +
	"choose another one, or start its server yourself and give --database-url")

const (
	// passwordFile lies inside the data directory, readable by its owner only. It also marks the directory as made by this package.
	passwordFile = "postrider_password"

	tempPrefix = "postrider-pg-"
	lockName   = "owner.lock"
	// clusterName is the data directory inside a temporary directory.
	clusterName = "data"
)

// cluster is a data directory that is ready to be served.
type cluster struct {
	dir      string
	password string
	runAs    *account
	programs binaries
	temp     *tempDir // nil when the user named the directory
}

// tempDir is a directory that lives as long as this process, at most.
type tempDir struct {
	path string
	lock *os.File
}

// openCluster finds or creates the data directory.
func openCluster(ctx context.Context, config Config) (_ *cluster, err error) {
	dir := config.DataDir
	c := &cluster{}
	if dir == "" {
		removeAbandoned(config.Logger)
		c.temp, err = newTempDir()
		if err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, c.temp.remove())
			}
		}()
		dir = filepath.Join(c.temp.path, clusterName)
	}
	if c.dir, err = filepath.Abs(dir); err != nil {
		return nil, fmt.Errorf("localpg: data directory: %w", err)
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, fmt.Errorf("localpg: create the data directory: %w", err)
	}
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return nil, fmt.Errorf("localpg: read the data directory: %w", err)
	}
	empty := len(entries) == 0
	if c.runAs, err = serverAccount(c.dir, empty); err != nil {
		return nil, err
	}
	if empty {
		return c, c.create(ctx, config)
	}
	return c, c.reuse(ctx, config)
}

// reuse reads the files of an earlier start and picks the matching release.
func (c *cluster) reuse(ctx context.Context, config Config) error {
	password, err := os.ReadFile(filepath.Join(c.dir, passwordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s", ErrForeignDataDir, c.dir)
	}
	if err != nil {
		return fmt.Errorf("localpg: read the password: %w", err)
	}
	c.password = strings.TrimSpace(string(password))
	version, err := os.ReadFile(filepath.Join(c.dir, "PG_VERSION"))
	if err != nil {
		return fmt.Errorf("localpg: release of the data directory: %w", err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(version)))
	if err != nil {
		return fmt.Errorf("localpg: release of the data directory: %w", err)
	}
	c.programs, err = findBinaries(ctx, config.BinDir, major)
	return err
}

func (c *cluster) create(ctx context.Context, config Config) error {
	var err error
	if c.programs, err = findBinaries(ctx, config.BinDir, 0); err != nil {
		return err
	}
	if c.temp != nil {
		if err := give(c.temp.path, c.runAs); err != nil {
			return err
		}
	}
	if err := give(c.dir, c.runAs); err != nil {
		return err
	}
	c.password = rand.Text()
	password, err := c.writePassword(os.TempDir())
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(password) }() // A leftover copy harms nobody: it is readable by the owner only.

	args := []string{
		"-D", c.dir, "--username=" + superuser, "--pwfile=" + password,
		"--auth=scram-sha-256", "--encoding=UTF8", "--no-locale",
	}
	if c.temp != nil {
		args = append(args, "--no-sync")
	}
	cmd := exec.CommandContext(ctx, c.programs.path("initdb"), args...)
	cmd.Dir = c.dir
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // Lets initdb remove its files.
	initdb, err := launch(cmd, c.runAs, config.Logger)
	if err != nil {
		return err
	}
	<-initdb.done
	if initdb.err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("localpg: create the cluster: %w", ctx.Err())
		}
		return fmt.Errorf("localpg: initdb: %w:\n%s", initdb.err, initdb.tail)
	}
	written, err := c.writePassword(c.dir)
	if err != nil {
		return err
	}
	if err := os.Rename(written, filepath.Join(c.dir, passwordFile)); err != nil {
		return fmt.Errorf("localpg: keep the password: %w", err)
	}
	return nil
}

// writePassword stores the password in a new file of dir that only the server's user can read.
func (c *cluster) writePassword(dir string) (string, error) {
	file, err := os.CreateTemp(dir, "postrider-password-")
	if err != nil {
		return "", fmt.Errorf("localpg: write the password: %w", err)
	}
	_, err = io.WriteString(file, c.password+"\n")
	if err = errors.Join(err, file.Close()); err == nil {
		err = give(file.Name(), c.runAs)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("localpg: write the password: %w", err), os.Remove(file.Name()))
	}
	return file.Name(), nil
}

// newTempDir makes a locked temporary directory. It locks the file before that gets the name that removeAbandoned looks for, so that the
// directory never looks abandoned.
func newTempDir() (_ *tempDir, err error) {
	path, err := os.MkdirTemp("", tempPrefix)
	if err != nil {
		return nil, fmt.Errorf("localpg: temporary directory: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("localpg: temporary directory: %w", err), os.RemoveAll(path))
		}
	}()
	lock, err := os.CreateTemp(path, "lock-")
	if err != nil {
		return nil, err
	}
	if _, err := lockFile(lock); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	if err := os.Rename(lock.Name(), filepath.Join(path, lockName)); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &tempDir{path: path, lock: lock}, nil
}

func (t *tempDir) remove() error {
	return errors.Join(os.RemoveAll(t.path), t.lock.Close())
}

// removeAbandoned clears temporary directories whose process died before it could. It is a courtesy: directories that cannot be read or
// removed, such as another user's, stay.
func removeAbandoned(logger *slog.Logger) {
	locks, _ := filepath.Glob(filepath.Join(os.TempDir(), tempPrefix+"*", lockName)) // The pattern is well-formed.
	for _, path := range locks {
		lock, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if free, err := lockFile(lock); err == nil && free {
			err = os.RemoveAll(filepath.Dir(path))
			logger.Info("removed an abandoned PostgreSQL directory", "dir", filepath.Dir(path), "error", err)
		}
		_ = lock.Close() // Nothing was written.
	}
}
