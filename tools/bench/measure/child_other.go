//go:build !linux

package measure

import "syscall"

// childAttributes returns nil: a benchmark needs Linux.
func childAttributes() *syscall.SysProcAttr { return nil }
