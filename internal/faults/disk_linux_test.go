package faults_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/slow"
)

// diskSize is that of the database's file system: what a new cluster takes, and some more.
const diskSize = "size=192m"

// The disk of the database runs full: delivery pauses, and goes on when there is room.
func TestDiskIsFull(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	slow.Test(t)
	disk := mountSmall(t)
	database, url := ownDatabase(t, localpg.Config{
		DataDir: filepath.Join(disk, "data"),
		Settings: map[string]string{
			"fsync": "off", "full_page_writes": "off", "min_wal_size": "32MB", "max_wal_size": "48MB", "shared_buffers": "16MB",
		},
	})
	s := begin(t, setting{
		Config: clustertest.Config{DatabaseURL: url, Flags: shortTTL()}, Load: clustertest.Load{Outages: true},
	})
	s.subscriber.WaitReceived(t, 500)

	ballast := filepath.Join(disk, "ballast")
	fill(t, ballast)
	clustertest.Until(t, "a worker meets the full disk", func(context.Context) (bool, error) {
		for _, w := range s.workers {
			if strings.Contains(w.Stderr(), "53100") || strings.Contains(w.Stderr(), "No space left") {
				return true, nil
			}
		}
		select {
		case <-database.Done():
			return true, nil
		default:
			return false, nil
		}
	}, nil)
	last(t.Context(), 2*ttl)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	select {
	case <-database.Done():
		t.Log("the server gave up: it is started again")
		s.restart(t, database)
	case <-time.After(time.Second): // a server that is giving up does so at once
	}
	s.Pool.Reset()
	s.waitAnswers(t)
	s.subscriber.WaitReceived(t, 500)
	s.wantUntouched(t)
	s.Verify(t)
	s.wantNothingFailed(t)
	s.report(t, 1)
}

// waitAnswers waits until the database takes statements.
func (s *stage) waitAnswers(t *testing.T) {
	t.Helper()
	clustertest.Until(t, "the database answers", func(ctx context.Context) (bool, error) {
		return s.Pool.Ping(ctx) == nil, nil
	}, nil)
}

// mountSmall mounts a small file system in memory, or skips the test.
func mountSmall(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	// The server does not run as root, and must be able to walk there.
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // nothing secret lies there
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, diskSize+",mode=755"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// fill writes until there is no room.
func fill(t *testing.T, name string) {
	t.Helper()
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	block := make([]byte, 4<<10)
	for {
		if _, err := file.Write(block); errors.Is(err, syscall.ENOSPC) || errors.Is(err, io.ErrShortWrite) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
