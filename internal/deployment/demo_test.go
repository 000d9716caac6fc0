package deployment_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/postrider/postrider/ui"
)

const demoFile = "deploy/demo/compose.yaml"

var update = flag.Bool("update", false, "write the dashboard into "+demoFile)

// One file is all that is needed: whatever it mounts is in it. And nothing is open beyond this machine, its passwords being known.
func TestDemoIsOneFile(t *testing.T) {
	t.Parallel()
	c, earnest := readComposeFile(t, demoFile), readCompose(t)
	if len(c.Secrets) > 0 || len(c.Volumes) > 0 {
		t.Errorf("it has secrets %v and volumes %v", c.Secrets, c.Volumes)
	}
	used := map[string]bool{}
	for name, s := range c.Services {
		if len(s.Volumes) > 0 || s.Build.Context != "" {
			t.Errorf("%s needs files beside this one: %v %+v", name, s.Volumes, s.Build)
		}
		for _, config := range s.Configs {
			used[config.Source] = true
			if c.Configs[config.Source]["content"] == "" {
				t.Errorf("%s: %s is not in the file", name, config.Source)
			}
		}
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s is open to other machines at %s", name, port)
			}
		}
		same := name
		if command, _, _ := strings.Cut(name, "-"); command == "postrider" || earnest.Services[name].Image == "" {
			same = "worker"
		}
		if s.Image != earnest.Services[same].Image {
			t.Errorf("%s is of image %s, in deploy/compose of %s", name, s.Image, earnest.Services[same].Image)
		}
	}
	for name := range c.Configs {
		if !used[name] {
			t.Errorf("nobody uses %s", name)
		}
	}
}

// The demo tells the program nothing that it does not know, has three workers of one kind, and one account everywhere.
func TestDemoRunsTheProgram(t *testing.T) {
	t.Parallel()
	variables, _ := settings(t)
	c := readComposeFile(t, demoFile)
	for _, name := range []string{"migrate", "postrider-1", "postrider-2", "postrider-3", "shop", "monitor"} {
		s := c.Services[name]
		for variable := range s.Environment {
			if !variables[variable] {
				t.Errorf("%s: the program does not know %s", name, variable)
			}
		}
		mustPostrider(t, nil, append(s.Command, "--help")...)
		if strings.HasPrefix(name, "postrider") && !reflect.DeepEqual(s.Command, c.Services["postrider-1"].Command) {
			t.Errorf("%s is another worker than the first", name)
		}
	}
	if ttl := c.Services["monitor"].Environment["POSTRIDER_LEASE_TTL"]; ttl != c.Services["postrider-1"].Environment["POSTRIDER_LEASE_TTL"] {
		t.Errorf("the monitor believes in leases of %s", ttl)
	}
	grace, err := time.ParseDuration(c.Services["postrider-1"].GracePeriod)
	if err != nil {
		t.Fatalf("stop_grace_period of the workers: %v", err)
	}
	checkBudget(t, demoFile, "5s", 0, int(grace.Seconds()))
	auth, err := ui.ReadAuth(write(t, "users", c.Configs["users"]["content"]))
	if want := (ui.User{Name: "postrider", Password: "postrider", Access: ui.AccessOperate}); err != nil || !slices.Equal(auth.Users, []ui.User{want}) {
		t.Errorf("the monitor lets in %+v: %v", auth.Users, err)
	}
}

// What is in the file for others is understood by them: by NATS, by Prometheus.
func TestDemoConfiguresOthers(t *testing.T) {
	t.Parallel()
	c := readComposeFile(t, demoFile)
	options, err := server.ProcessConfigFile(write(t, "nats.conf", c.Configs["nats"]["content"]))
	if err != nil || !options.JetStream || len(options.Routes) != 3 || options.Cluster.Name == "" {
		t.Fatalf("NATS reads %+v: %v", options, err)
	}
	for _, route := range options.Routes {
		if c.Services[route.Hostname()].Image == "" {
			t.Errorf("there is no server %s", route.Hostname())
		}
	}
	var workers []string
	for _, name := range []string{"postrider-1", "postrider-2", "postrider-3"} {
		workers = append(workers, `"`+name+c.Services[name].Environment["POSTRIDER_HTTP_ADDR"]+`"`)
	}
	prometheus := c.Configs["prometheus"]["content"]
	if !strings.Contains(prometheus, "targets: ["+strings.Join(workers, ", ")+"]") {
		t.Errorf("Prometheus looks for workers elsewhere than at %v:\n%s", workers, prometheus)
	}
	promtool := tool(t, "promtool", "POSTRIDER_PROMTOOL")
	stdout, stderr, err := execute(t, root, promtool, "check", "config", "--syntax-only", write(t, "prometheus.yml", prometheus))
	if err != nil {
		t.Errorf("promtool: %v\n%s%s", err, stdout, stderr)
	}
}

// Grafana asks the Prometheus beside it, and begins with a dashboard from where it looks for them, in the demo as in earnest.
func TestGrafanaIsProvisioned(t *testing.T) {
	t.Parallel()
	demo, earnest := readComposeFile(t, demoFile), readCompose(t)
	place := checkProvisioning(t, demo, demo.Configs["datasources"]["content"], demo.Configs["dashboards"]["content"])
	if !slices.Contains(demo.Services["grafana"].Configs, struct{ Source, Target string }{"dashboard", place}) {
		t.Errorf("the demo has no dashboard at %s", place)
	}
	const folder = composeFolder + "/grafana/"
	place = checkProvisioning(t, earnest, read(t, folder+"datasources.yaml"), read(t, folder+"dashboards.yaml"))
	if !mounts(earnest.Services["grafana"], place, "dashboard.json") {
		t.Errorf("%s has no dashboard at %s", composeFolder, place)
	}
}

// checkProvisioning reads what Grafana reads, as strictly as it, and returns where its first dashboard lies.
func checkProvisioning(t *testing.T, c compose, sources, dashboards string) (home string) {
	t.Helper()
	type source struct {
		Name, UID, Type, Access, URL string
		IsDefault                    bool `yaml:"isDefault"`
	}
	var from struct {
		APIVersion  int `yaml:"apiVersion"`
		Datasources []source
	}
	decodeYAML(t, "data sources", sources, &from)
	want := source{"Prometheus", "prometheus", "prometheus", "proxy", "http://prometheus:9090", true} // 9090 is what its image listens at
	if from.APIVersion != 1 || !slices.Equal(from.Datasources, []source{want}) || !strings.HasPrefix(c.Services["prometheus"].Image, "prom/prometheus:") {
		t.Errorf("Grafana asks %+v, and Prometheus is of image %s", from, c.Services["prometheus"].Image)
	}
	var shown struct {
		APIVersion int `yaml:"apiVersion"`
		Providers  []struct {
			Name, Type string
			Options    struct{ Path string }
		}
	}
	decodeYAML(t, "dashboards", dashboards, &shown)
	home = c.Services["grafana"].Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
	if shown.APIVersion != 1 || len(shown.Providers) != 1 || shown.Providers[0].Type != "file" || shown.Providers[0].Options.Path != filepath.Dir(home) {
		t.Errorf("Grafana looks for dashboards in %+v, and begins with %s", shown, home)
	}
	return home
}

// Grafana shows the dashboard that deploy/grafana has.
func TestDemoHasTheDashboard(t *testing.T) {
	t.Parallel()
	var line bytes.Buffer
	if err := json.Compact(&line, []byte(read(t, "deploy/grafana/dashboard.json"))); err != nil {
		t.Fatal(err)
	}
	if *update {
		const begin = "  dashboard:\n    content: |\n"
		text, _, _ := strings.Cut(read(t, demoFile), begin)
		text += begin + "      " + strings.ReplaceAll(line.String(), "$", "$$") + "\n"
		if err := os.WriteFile(filepath.Join(root, demoFile), []byte(text), 0o644); err != nil { // everybody may read the repository
			t.Fatal(err)
		}
	}
	// Compose takes what begins with one dollar for a variable.
	content := readComposeFile(t, demoFile).Configs["dashboard"]["content"]
	if strings.ReplaceAll(content, "$$", "$") != line.String()+"\n" || strings.Count(content, "$$")*2 != strings.Count(content, "$") {
		t.Error("the dashboard is another one; `go test ./internal/deployment -run Demo -update` writes it")
	}
}
