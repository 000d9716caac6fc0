//go:build unix

package processor

import (
	"syscall"
	"testing"
	"time"
)

// Time returns the processor time of this process, of user and system.
func Time(tb testing.TB) time.Duration {
	tb.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
