package deployment_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var stage = regexp.MustCompile(`(?m)^FROM (\S+) AS (\S+)$`)

// What is tested is what is released: the image around a program that was built outside differs from the released one
// in nothing but where its files come from.
func TestImageIsTheOneThatIsTested(t *testing.T) {
	t.Parallel()
	text := read(t, "deploy/docker/Dockerfile")
	places := stage.FindAllStringSubmatchIndex(text, -1)
	bodies, bases := map[string][]string{}, map[string]string{}
	for i, p := range places {
		end := len(text)
		if i+1 < len(places) {
			end = places[i+1][0]
		}
		name := text[p[4]:p[5]]
		bases[name] = text[p[2]:p[3]]
		for line := range strings.Lines(text[p[1]:end]) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				bodies[name] = append(bodies[name], line)
			}
		}
	}
	if bases["runtime"] != "scratch" || bases["prebuilt"] != "runtime" || bases["release"] != "runtime" {
		t.Errorf("the stages stand on %v", bases)
	}
	prebuilt, release := []string{"ARG FILES=bin/image/", "COPY ${FILES} /"}, []string{"COPY --from=build /src/bin/image/ /"}
	if !slices.Equal(bodies["prebuilt"], prebuilt) || !slices.Equal(bodies["release"], release) {
		t.Errorf("the last stages are %v and %v", bodies["prebuilt"], bodies["release"])
	}
	for _, want := range []string{
		"USER 65532:65532", `ENTRYPOINT ["/usr/bin/postrider"]`, `CMD ["run"]`, "STOPSIGNAL SIGTERM", "EXPOSE 8080",
		"HEALTHCHECK --interval=10s --timeout=7s --start-period=60s --retries=3 CMD [\"/usr/bin/postrider\", \"healthcheck\"]",
	} {
		if !slices.Contains(bodies["runtime"], want) {
			t.Errorf("the image lacks %s", want)
		}
	}
	if last := places[len(places)-1]; text[last[4]:last[5]] != "release" {
		t.Error("docker build without --target makes another image than the released one")
	}
	// The language that go.mod asks for is the one that builds.
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "go.mod"))[1]
	if !strings.HasPrefix(bases["build"], "golang:"+version+"-") {
		t.Errorf("the image is built by %s, go.mod wants %s", bases["build"], version)
	}
}

// Every package that the program is built from goes into the build, and no secret does.
func TestImageContextHoldsTheSources(t *testing.T) {
	t.Parallel()
	ignore := strings.Split(read(t, ".dockerignore"), "\n")
	const ours = "{{if not .Standard}}{{with .Module}}{{if .Main}}{{$.Dir}}{{end}}{{end}}{{end}}"
	stdout, stderr, err := execute(t, root, "go", "list", "-deps", "-f", ours, "./cmd/postrider")
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr)
	}
	for _, folder := range strings.Fields(stdout) {
		top, _, _ := strings.Cut(strings.TrimPrefix(folder, here(t)+string(os.PathSeparator)), string(os.PathSeparator))
		if !slices.Contains(ignore, "!"+top) {
			t.Errorf(".dockerignore keeps out %s, which the program is built from", top)
		}
	}
	if ignore[1] != "*" || slices.Contains(ignore, "!deploy") {
		t.Error(".dockerignore lets in what the image does not need")
	}
}
