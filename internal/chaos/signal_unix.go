//go:build !windows

package chaos

import (
	"os"
	"syscall"
)

func freeze(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func wake(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
