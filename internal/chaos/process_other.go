//go:build !linux

package chaos

import "syscall"

// apart has nothing to offer here that all systems know: a process that is killed leaves its workers.
func apart() *syscall.SysProcAttr { return nil }
