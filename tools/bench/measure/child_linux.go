package measure

import "syscall"

// childAttributes shield children from an interrupt of the terminal, as this process ends them in order, and end them
// when this process dies.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
