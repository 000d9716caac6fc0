package measure

import "syscall"

// childAttributes keep an interrupt of the terminal from children, which this process ends in its order, and end them when
// this process dies.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
