//go:build !linux

package localpg

import (
	"os"
	"os/exec"
)

// prepareChild does nothing: other systems know no death signal.
func prepareChild(*exec.Cmd, *account) error { return nil }

// serverAccount keeps the user of this process. PostgreSQL itself refuses root and says so.
func serverAccount(string, bool) (*account, error) { return nil, nil }

func give(string, *account) error { return nil }

// lockFile reports every lock as held by somebody else, so that no directory is ever swept.
func lockFile(*os.File) (ok bool, err error) { return false, nil }

// killTree ends the postmaster; its backends notice and end by themselves.
func killTree(postmaster *os.Process) error { return postmaster.Kill() }
