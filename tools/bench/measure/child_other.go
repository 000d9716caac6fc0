//go:build !linux

package measure

import "syscall"

// childAttributes are of no account: a benchmark needs Linux.
func childAttributes() *syscall.SysProcAttr { return nil }
