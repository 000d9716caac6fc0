package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	const documented = "// Package p does things.\npackage p\n"
	for name, test := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"clean": {files: map[string]string{"p/doc.go": documented, "p/p.go": "package p\n"}},
		"no doc.go": {
			files: map[string]string{"p/p.go": "package p\n"},
			want:  []string{"p: no doc.go"},
		},
		"no package comment": {
			files: map[string]string{"p/doc.go": "package p\n"},
			want:  []string{"p/doc.go: no package comment"},
		},
		"long file": {
			files: map[string]string{"p/doc.go": documented + strings.Repeat("\n", 399)},
			want:  []string{"p/doc.go: 401 lines, at most 400"},
		},
		"long function": {
			files: map[string]string{"p/doc.go": documented + "func f() {" + strings.Repeat("\n", 80) + "}\n"},
			want:  []string{"p/doc.go:3: f has 81 lines, at most 80"},
		},
		"long test": {
			files: map[string]string{"p/doc.go": documented, "p/p_test.go": "package p\nfunc f() {" + strings.Repeat("\n", 80) + "}\n"},
		},
		"empty name": {
			files: map[string]string{"p/doc.go": "// Package util is.\npackage util\n"},
			want:  []string{"p/doc.go: package util has a name that says nothing"},
		},
		"test code in a program": {
			files: map[string]string{"p/doc.go": documented + "import _ \"testing\"\n"},
			want:  []string{"p/doc.go: imports testing outside of tests"},
		},
		"test kit": {
			files: map[string]string{"p/doc.go": "// Package ptest tests.\npackage ptest\nimport _ \"testing\"\n"},
		},
		"unfinished and local": {
			files: map[string]string{"a.md": "TO" + "DO later\nsee /ro" + "ot/x\n", "b.bin": "TO" + "DO"},
			want:  []string{"a.md:1: left to do", "a.md:2: path of a machine"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			var files []string
			for file, content := range test.files {
				files = append(files, file)
				path := filepath.Join(root, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := check(root, files)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
