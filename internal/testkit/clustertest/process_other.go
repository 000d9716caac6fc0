//go:build !linux

package clustertest

import "syscall"

// bound has nothing to offer here: a test binary that is killed leaves its workers.
func bound() *syscall.SysProcAttr { return nil }
