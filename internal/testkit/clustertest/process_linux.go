package clustertest

import "syscall"

// bound ends the child with the thread that starts it, which lives as long as the child or the test binary.
func bound() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
