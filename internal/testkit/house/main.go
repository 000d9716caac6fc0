package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

func main() {
	files, err := trackedFiles()
	if err == nil {
		var broken []string
		broken, err = check(".", files)
		for _, line := range broken {
			fmt.Println(line)
		}
		if len(broken) > 0 {
			err = fmt.Errorf("%d house rules broken", len(broken))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
}

// trackedFiles lists what git tracks, and what it would if it were asked to.
func trackedFiles() ([]string, error) {
	command := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("list the files: %w", err)
	}
	var files []string
	for name := range strings.SplitSeq(string(bytes.TrimRight(output, "\x00")), "\x00") {
		if _, err := os.Lstat(name); err == nil { // A tracked file may be deleted.
			files = append(files, name)
		}
	}
	return files, nil
}
