package chaos

import "syscall"

// apart keeps a Ctrl-C from the child, and ends it with its starting thread, which lives as long as the child or this process.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
