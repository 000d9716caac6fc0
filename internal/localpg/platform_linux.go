package localpg

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// prepareChild makes the program run as the given account and end when this process ends. It gets a process
// group of its own: a Ctrl-C is for this process, which stops the server in good order.
func prepareChild(cmd *exec.Cmd, as *account) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT, Setpgid: true}
	if as != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: as.uid, Gid: as.gid}
	}
	return nil
}

// serverAccount returns the account of the server: nil when this process is not root. For a directory with content that is its owner, else
// the first of the usual unprivileged users.
func serverAccount(dataDir string, empty bool) (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	if !empty {
		info, err := os.Stat(dataDir)
		if err != nil {
			return nil, fmt.Errorf("localpg: owner of the data directory: %w", err)
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 {
			return &account{uid: stat.Uid, gid: stat.Gid}, nil
		}
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(found.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(found.Gid, 10, 32)
		if err := errors.Join(errUID, errGID); err != nil {
			return nil, fmt.Errorf("localpg: ids of user %s: %w", name, err)
		}
		return &account{uid: uint32(uid), gid: uint32(gid)}, nil
	}
	return nil, errors.New("localpg: PostgreSQL refuses to run as root, and there is neither a user postgres nor nobody: " +
		"run as another user or give --database-url")
}

// give hands a file or directory to the account.
func give(path string, to *account) error {
	if to == nil {
		return nil
	}
	if err := os.Chown(path, int(to.uid), int(to.gid)); err != nil {
		return fmt.Errorf("localpg: hand over to the server's user: %w", err)
	}
	return nil
}

// lockFile takes an exclusive lock that the kernel frees with the process. ok is false when another process holds it.
func lockFile(file *os.File) (ok bool, err error) {
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// killTree ends the postmaster and its backends at once. It is stopped first so that it cannot fork another backend or tidy up in between.
func killTree(postmaster *os.Process) error {
	if err := postmaster.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	children, err := childrenOf(postmaster.Pid)
	if err != nil {
		return errors.Join(err, postmaster.Kill())
	}
	if err := postmaster.Kill(); err != nil {
		return err
	}
	for _, pid := range children {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill backend %d: %w", pid, err)
		}
	}
	return nil
}

func childrenOf(pid int) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var children []int
	for _, path := range stats {
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // It ended meanwhile.
		}
		if err != nil {
			return nil, fmt.Errorf("list backends: %w", err)
		}
		// "pid (name) state parent …", where the name may hold spaces and parentheses.
		_, rest, _ := strings.Cut(string(content[strings.LastIndexByte(string(content), ')'):]), " ")
		fields := strings.Fields(rest)
		if len(fields) < 2 || fields[1] != strconv.Itoa(pid) {
			continue
		}
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			return nil, fmt.Errorf("list backends: %w", err)
		}
		children = append(children, child)
	}
	return children, nil
}
