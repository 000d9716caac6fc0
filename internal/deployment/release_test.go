package deployment_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// Whoever deploys from one commit gets one version, whichever way, and the chart has the number of the version that the changelog tells of.
func TestDeployNamesOneVersion(t *testing.T) {
	t.Parallel()
	want := found(t, "Makefile", `(?m)^VERSION \?= (\S+)$`)
	for name, place := range map[string][2]string{
		"the chart":             {"deploy/helm/postrider/Chart.yaml", `(?m)^appVersion: (\S+)$`},
		"the Compose file":      {"deploy/compose/compose.yaml", `image: \$\{POSTRIDER_IMAGE:-postrider:(\S+)\}`},
		"the demo":              {demoFile, `image: \$\{POSTRIDER_IMAGE:-postrider:(\S+)\}`},
		"the image's file":      {"deploy/docker/Dockerfile", `(?m)^ARG VERSION=(\S+)$`},
		"the image of the make": {"Makefile", `(?m)^IMAGE \?= postrider:(\S+)$`},
	} {
		if got := found(t, place[0], place[1]); got != want {
			t.Errorf("%s names version %s, the Makefile %s", name, got, want)
		}
	}
	chart, changelog := found(t, "deploy/helm/postrider/Chart.yaml", `(?m)^version: (\S+)$`), found(t, "CHANGELOG.md", `(?m)^## \[(\d\S*)\] - (?:\d{4}-\d\d-\d\d|not released yet)$`)
	if chart != changelog {
		t.Errorf("the chart has version %s, the changelog %s", chart, changelog)
	}
}

// found is what the group of a pattern matches in a file of the repository.
func found(t *testing.T, file, pattern string) string {
	t.Helper()
	match := regexp.MustCompile(pattern).FindStringSubmatch(read(t, file))
	if match == nil {
		t.Fatalf("%s has nothing like %s", file, pattern)
	}
	return match[1]
}

// release is what goreleaser laid out.
type release struct {
	folder, version string
	sums            map[string]string // by the names of files
}

// snapshot is the release that `make release/snapshot` made.
func snapshot(t *testing.T) release {
	t.Helper()
	r := release{folder: os.Getenv("POSTRIDER_RELEASE"), sums: map[string]string{}}
	if r.folder == "" {
		t.Skip("no release: make release/snapshot")
	}
	var metadata struct{ Version string }
	if err := json.Unmarshal(r.read(t, "metadata.json"), &metadata); err != nil || metadata.Version == "" {
		t.Fatalf("metadata.json names no version: %v", err)
	}
	r.version = metadata.Version
	for line := range strings.Lines(string(r.read(t, "checksums.txt"))) {
		fields := strings.Fields(line)
		r.sums[fields[1]] = fields[0]
	}
	return r
}

// read is a file of the release, or of what lies beside the programs.
func (r release) read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.folder, name))
	if errors.Is(err, os.ErrNotExist) {
		text, err = os.ReadFile(filepath.Join(filepath.Dir(r.folder), "release", name))
	}
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// platforms are those of a release, each with the machine that its programs name.
var platforms = map[string]any{
	"linux_amd64": elf.EM_X86_64, "linux_arm64": elf.EM_AARCH64,
	"darwin_amd64": macho.CpuAmd64, "darwin_arm64": macho.CpuArm64,
	"windows_amd64": uint16(pe.IMAGE_FILE_MACHINE_AMD64), "windows_arm64": uint16(pe.IMAGE_FILE_MACHINE_ARM64),
}

// machineOf is what a program runs on.
func machineOf(program []byte) any {
	if file, err := elf.NewFile(bytes.NewReader(program)); err == nil {
		return file.Machine
	}
	if file, err := macho.NewFile(bytes.NewReader(program)); err == nil {
		return file.Cpu
	}
	if file, err := pe.NewFile(bytes.NewReader(program)); err == nil {
		return file.Machine
	}
	return "none that is known"
}

// Each platform has an archive with its program and what belongs to it, and a bill of materials. That of this machine says its version.
func TestReleaseHoldsThePrograms(t *testing.T) {
	t.Parallel()
	r := snapshot(t)
	for platform, machine := range platforms {
		program, suffix, unpack := "postrider", "tar.gz", untar
		if strings.HasPrefix(platform, "windows") {
			program, suffix, unpack = "postrider.exe", "zip", unzip
		}
		files := unpack(t, r.read(t, r.name(platform, suffix)))
		if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, []string{"LICENSE", "README.md", program}) {
			t.Errorf("%s: the archive holds %v", platform, got)
		}
		if got := machineOf(files[program]); got != machine {
			t.Errorf("%s: the program is for %v", platform, got)
		}
		info, err := buildinfo.Read(bytes.NewReader(files[program]))
		if err != nil || info.Path != "github.com/postrider/postrider/cmd/postrider" {
			t.Errorf("%s: the program is no build of ours: %v", platform, err)
			continue
		}
		r.checkMaterials(t, platform, info)
		if platform == runtime.GOOS+"_"+runtime.GOARCH {
			path := filepath.Join(t.TempDir(), program)
			if err := os.WriteFile(path, files[program], 0o700); err != nil {
				t.Fatal(err)
			}
			if said, _, err := execute(t, root, path, "version"); err != nil || !strings.HasPrefix(said, "postrider v"+r.version+" go") {
				t.Errorf("%s: the program calls itself %s: %v", platform, said, err)
			}
		}
	}
}

// checkMaterials compares a bill of materials with what the program itself says that it is made of.
func (r release) checkMaterials(t *testing.T, platform string, program *buildinfo.BuildInfo) {
	t.Helper()
	var bill struct {
		BOMFormat  string
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(r.read(t, r.name(platform, "cdx.json")), &bill); err != nil || bill.BOMFormat != "CycloneDX" {
		t.Errorf("%s: the bill of materials is none: %v", platform, err)
	}
	listed := map[string]string{}
	for _, c := range bill.Components {
		listed[c.Name] = c.Version
	}
	for _, module := range program.Deps {
		if listed[module.Path] != module.Version {
			t.Errorf("%s: the bill of materials has %s in version %q, the program in %s", platform, module.Path, listed[module.Path], module.Version)
		}
	}
}

// Every file that is published has its checksum, and the formula names those of its archives.
func TestReleaseHasItsChecksums(t *testing.T) {
	t.Parallel()
	r := snapshot(t)
	want := []string{"compose.yaml", "postrider-" + r.version + ".tgz"}
	for platform := range platforms {
		suffix := "tar.gz"
		if strings.HasPrefix(platform, "windows") {
			suffix = "zip"
		}
		want = append(want, r.name(platform, suffix), r.name(platform, "cdx.json"))
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(r.sums)); !slices.Equal(got, want) {
		t.Errorf("there are checksums of\n%v, want those of\n%v", got, want)
	}
	for name, want := range r.sums {
		if sum := sha256.Sum256(r.read(t, name)); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s has another checksum", name)
		}
	}
	formula := regexp.MustCompile(`url "\S*/v[^/]+/(\S+)"\s+sha256 "(\w+)"`).
		FindAllStringSubmatch(string(r.read(t, "homebrew/Formula/postrider.rb")), -1)
	if len(formula) != 4 {
		t.Errorf("the formula names %d archives", len(formula))
	}
	for _, archive := range formula {
		if r.sums[archive[1]] != archive[2] {
			t.Errorf("the formula has another checksum of %s", archive[1])
		}
	}
}

// The chart and the demo of a release run the image of this release, which says its version.
func TestReleaseNamesItsImage(t *testing.T) {
	t.Parallel()
	r := snapshot(t)
	image := "ghcr.io/postrider/postrider:v" + r.version
	if demo := string(r.read(t, "compose.yaml")); !strings.Contains(demo, "image: ${POSTRIDER_IMAGE:-"+image+"}\n") || strings.Contains(demo, "devel") {
		t.Errorf("the demo is not of %s", image)
	}
	chart := string(untar(t, r.read(t, "postrider-"+r.version+".tgz"))["postrider/Chart.yaml"])
	if !strings.Contains(chart, "\nversion: "+r.version+"\n") || !strings.Contains(chart, "appVersion: v"+r.version+"\n") {
		t.Errorf("the chart is not of %s:\n%s", r.version, chart)
	}
	if exec.CommandContext(t.Context(), "docker", "version").Run() != nil {
		t.Skip("no Docker engine: no image")
	}
	said, stderr, err := execute(t, root, "docker", "run", "--rm", "--network=none", image+"-"+runtime.GOARCH, "version")
	if err != nil || !strings.HasPrefix(said, "postrider v"+r.version+" go") {
		t.Errorf("the image calls itself %s: %v\n%s", said, err, stderr)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		said, stderr, err := execute(t, root, "docker", "image", "inspect", "--format={{.Os}}/{{.Architecture}}", image+"-"+arch)
		if err != nil || strings.TrimSpace(said) != "linux/"+arch {
			t.Errorf("the image for %s is for %s: %v\n%s", arch, said, err, stderr)
		}
	}
}

// name is that of a platform's file.
func (r release) name(platform, suffix string) string {
	return "postrider_" + r.version + "_" + platform + "." + suffix
}

// untar are the files of an archive by their paths.
func untar(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	plain, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for reader := tar.NewReader(plain); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(reader); err != nil {
			t.Fatal(err)
		}
	}
}

// unzip are the files of an archive by their paths.
func unzip(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	reader, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, f := range reader.File {
		content, err := reader.Open(f.Name)
		if err != nil {
			t.Fatal(err)
		}
		if files[f.Name], err = io.ReadAll(content); err != nil {
			t.Fatal(err)
		}
		if err := content.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return files
}
