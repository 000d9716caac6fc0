package deployment_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.yaml.in/yaml/v3"

	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/ui"
)

const composeFolder = "deploy/compose"

type compose struct {
	Services map[string]composeService
	Secrets  map[string]struct{ File string }
	Configs  map[string]map[string]string
	Volumes  map[string]any
}

type composeService struct {
	Image       string
	Build       struct{ Context, Dockerfile, Target string }
	Entrypoint  []string
	Command     []string
	Environment map[string]string
	Secrets     []string
	Configs     []struct{ Source, Target string }
	Profiles    []string
	Volumes     []string
	Ports       []string
	ReadOnly    bool     `yaml:"read_only"`
	CapDrop     []string `yaml:"cap_drop"`
	SecurityOpt []string `yaml:"security_opt"`
	GracePeriod string   `yaml:"stop_grace_period"`
	Restart     string
	Healthcheck map[string]any
	DependsOn   yaml.Node `yaml:"depends_on"`
}

func readCompose(t *testing.T) compose {
	t.Helper()
	return readComposeFile(t, composeFolder+"/compose.yaml")
}

func readComposeFile(t *testing.T, name string) compose {
	t.Helper()
	var c compose
	if err := yaml.Unmarshal([]byte(read(t, name)), &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Services) < 9 {
		t.Fatalf("the Compose file has %d services", len(c.Services))
	}
	return c
}

// Everything that Compose is told to set is a setting of the program, workers can be of any number, and each keeps its budget.
func TestComposeRunsTheProgram(t *testing.T) { //nolint:paralleltest // processes run one at a time
	variables, _ := settings(t)
	c := readCompose(t)
	for _, name := range []string{"worker", "migrate"} {
		s := c.Services[name]
		for variable := range s.Environment {
			if !variables[variable] && variable != "PGPASSFILE" && variable != "GOMEMLIMIT" {
				t.Errorf("%s: the program does not know %s", name, variable)
			}
		}
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"}) {
			t.Errorf("%s is not confined", name)
		}
		if strings.Contains(s.Environment["POSTRIDER_DATABASE_URL"], ":secret") || s.Environment["PGPASSFILE"] == "" {
			t.Errorf("%s: the password of the database is no secret", name)
		}
		dockerfile := filepath.Join(composeFolder, s.Build.Context, s.Build.Dockerfile)
		if text := read(t, dockerfile); !strings.Contains(text, " AS "+s.Build.Target+"\n") {
			t.Errorf("%s: %s has no stage %s", name, dockerfile, s.Build.Target)
		}
		// `--help` ends the parser once it has understood the command.
		mustPostrider(t, nil, append(s.Command, "--help")...)
	}
	worker := c.Services["worker"]
	grace, err := time.ParseDuration(worker.GracePeriod)
	if err != nil {
		t.Fatalf("stop_grace_period of the worker: %v", err)
	}
	checkBudget(t, "compose.yaml", worker.Environment["POSTRIDER_DRAIN_TIMEOUT"], 0, int(grace.Seconds()))
	if !slices.Equal(worker.Ports, []string{"127.0.0.1::8080"}) {
		t.Errorf("ports of the worker: %v; a fixed one admits a single worker", worker.Ports)
	}
	if worker.Environment["POSTRIDER_HTTP_USERS_FILE"] != "/run/secrets/monitor_users" || !slices.Contains(worker.Secrets, "monitor_users") {
		t.Error("the monitor's credentials are no secret")
	}
}

// Every file that is mounted is there, every secret is made by secrets.sh, and nothing is open beyond this machine.
func TestComposeIsComplete(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	folder := filepath.Join(t.TempDir(), "secrets")
	for range 2 { // what is there is kept
		if _, stderr, err := execute(t, filepath.Join(root, composeFolder), "./secrets.sh", folder); err != nil {
			t.Fatalf("secrets.sh: %v\n%s", err, stderr)
		}
	}
	for name, s := range c.Secrets {
		info, err := os.Stat(filepath.Join(folder, filepath.Base(s.File)))
		if err != nil || info.Size() < 40 || info.Mode().Perm() != 0o644 {
			t.Errorf("secrets.sh does not make %s: %v", name, err)
		}
	}
	for name, s := range c.Services {
		for _, secret := range s.Secrets {
			if c.Secrets[secret].File == "" {
				t.Errorf("%s: there is no secret %s", name, secret)
			}
		}
		for _, volume := range s.Volumes {
			source, _, _ := strings.Cut(volume, ":")
			if _, named := c.Volumes[source]; named {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, composeFolder, source)); err != nil {
				t.Errorf("%s mounts %s: %v", name, source, err)
			}
		}
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s is open to other machines at %s", name, port)
			}
		}
	}
	password, err := os.ReadFile(filepath.Join(folder, "prometheus_password"))
	if err != nil {
		t.Fatal(err)
	}
	auth, err := ui.ReadAuth(filepath.Join(folder, "monitor_users"))
	if err != nil || len(auth.Users) != 2 || auth.Users[1] != (ui.User{Name: "prometheus", Password: string(password), Access: ui.AccessReadOnly}) {
		t.Errorf("Prometheus has another password than the monitor knows: %v", err)
	} else if admin := auth.Users[0]; admin.Name != "admin" || admin.Access != ui.AccessOperate || len(admin.Password) < 40 {
		t.Error("nobody may act, or by a short password")
	}
}

// Prometheus finds every worker, loads the alerts and shows its credentials.
func TestComposeObserves(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	var prometheus struct {
		Global        map[string]string
		RuleFiles     []string `yaml:"rule_files"`
		ScrapeConfigs []struct {
			JobName   string `yaml:"job_name"`
			BasicAuth struct {
				Username     string
				PasswordFile string `yaml:"password_file"`
			} `yaml:"basic_auth"`
			DNS []struct {
				Names    []string
				Type     string
				Port     int
				Interval string `yaml:"refresh_interval"`
			} `yaml:"dns_sd_configs"`
		} `yaml:"scrape_configs"`
	}
	readYAML(t, composeFolder+"/prometheus.yaml", &prometheus)
	if !mounts(c.Services["prometheus"], prometheus.RuleFiles[0], "alerts.yaml") {
		t.Errorf("Prometheus loads %v, which is not mounted", prometheus.RuleFiles)
	}
	scrape := prometheus.ScrapeConfigs[0]
	if !reflect.DeepEqual(scrape.DNS[0].Names, []string{"worker"}) || scrape.DNS[0].Port != 8080 || scrape.DNS[0].Type != "A" {
		t.Errorf("Prometheus looks for workers at %+v", scrape.DNS)
	}
	if scrape.BasicAuth.Username != "prometheus" || scrape.BasicAuth.PasswordFile != "/run/secrets/prometheus_password" {
		t.Errorf("Prometheus logs in with %+v", scrape.BasicAuth)
	}
	promtool := tool(t, "promtool", "POSTRIDER_PROMTOOL")
	stdout, stderr, err := execute(t, filepath.Join(root, composeFolder), promtool, "check", "config", "--syntax-only", "prometheus.yaml")
	if err != nil {
		t.Errorf("promtool: %v\n%s%s", err, stdout, stderr)
	}
}

// mounts tells whether a file of the repository with this name is at that place in the container.
func mounts(s composeService, place, name string) bool {
	return slices.ContainsFunc(s.Volumes, func(volume string) bool {
		parts := strings.Split(volume, ":")
		return len(parts) > 1 && parts[1] == place && filepath.Base(parts[0]) == name
	})
}

// Compose itself understands the files.
func TestComposeUnderstandsTheFiles(t *testing.T) {
	t.Parallel()
	compose := tool(t, "compose-spec", "POSTRIDER_COMPOSE")
	for _, file := range []string{composeFolder + "/compose.yaml", demoFile} {
		stdout, stderr, err := execute(t, root, compose, file)
		if err != nil {
			t.Fatalf("%s: %v\n%s", file, err, stderr)
		}
		var c struct{ Services map[string]any }
		if err := yaml.Unmarshal([]byte(stdout), &c); err != nil || len(c.Services) != len(readComposeFile(t, file).Services) {
			t.Errorf("%s: it understands %d services: %v", file, len(c.Services), err)
		}
	}
}

// The jobs of the Compose file do their work on a real server: roles before the tables, rights after them, and the
// passwords that the program finds in its file.
func TestComposeMakesRolesAndTables(t *testing.T) { //nolint:paralleltest // processes run one at a time
	psql := tool(t, "psql", "POSTRIDER_PSQL")
	address, err := url.Parse(pgtest.Server(t, localpg.Config{}).URL())
	if err != nil {
		t.Fatal(err)
	}
	password, _ := address.User.Password()
	folder := t.TempDir()
	if _, stderr, err := execute(t, filepath.Join(root, composeFolder), "./secrets.sh", folder); err != nil {
		t.Fatalf("secrets.sh: %v\n%s", err, stderr)
	}
	if err := os.WriteFile(filepath.Join(folder, "postgres_password"), []byte(password), 0o600); err != nil {
		t.Fatal(err)
	}
	script := strings.NewReplacer("/run/secrets", folder, "/roles.sql", filepath.Join(here(t), "deploy/sql/roles.sql"), "psql -v", psql+" -v").
		Replace(read(t, composeFolder+"/roles.sh"))
	roles := func() {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
		cmd.Env = append(os.Environ(), "PGHOST="+address.Hostname(), "PGPORT="+address.Port(), "PGUSER=postgres", "PGDATABASE=postgres")
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("roles.sh: %v\n%s", err, output)
		}
	}
	settings := func(service string) []string {
		t.Helper()
		env := readCompose(t).Services[service].Environment
		passwords := filepath.Join(folder, filepath.Base(env["PGPASSFILE"]))
		text, err := os.ReadFile(passwords)
		if err != nil {
			t.Fatal(err)
		}
		// The server of the test has another address and another name of the database.
		line := strings.Replace(string(text), "postgres:5432:app:", address.Hostname()+":"+address.Port()+":postgres:", 1)
		if err := os.WriteFile(passwords+".test", []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		database := strings.Replace(env["POSTRIDER_DATABASE_URL"], "postgres:5432/app", address.Host+"/postgres", 1)
		return []string{"POSTRIDER_DATABASE_URL=" + database, "PGPASSFILE=" + passwords + ".test"}
	}
	roles()
	mustPostrider(t, settings("migrate"), "migrate", "up")
	roles()
	broker := natstest.Start(t, 1)
	worker := append(settings("worker"), "POSTRIDER_NATS_URL="+broker.URL(), "POSTRIDER_CREATE_STREAM=true")
	mustPostrider(t, worker, "run", "--once", "--http-addr=off")
	mustPostrider(t, worker, "messages", "list")
	mustPostrider(t, worker, "doctor")
	for _, s := range [][]string{settings("migrate"), settings("worker")} {
		if _, stderr, status := postrider(t, append(s, "PGPASSFILE=/dev/null"), "status"); status == 0 {
			t.Errorf("without its password it is let in: %s", stderr)
		}
	}
}

// here is the repository's folder, absolute.
func here(t *testing.T) string {
	t.Helper()
	folder, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// A worker starts once the brokers are healthy, and needs a leader of theirs: without one, a server is not.
func TestComposeWaitsForALeader(t *testing.T) {
	t.Parallel()
	s, err := server.NewServer(&server.Options{
		ServerName: "nats-1", Host: "127.0.0.1", Port: server.RANDOM_PORT, HTTPHost: "127.0.0.1", HTTPPort: server.RANDOM_PORT,
		JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
		Cluster: server.ClusterOpts{Name: "demo", Host: "127.0.0.1", Port: server.RANDOM_PORT},
		Routes:  server.RoutesFromStr("nats://127.0.0.1:1"), // nobody is there
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server takes no connections")
	}
	for _, file := range []string{composeFolder + "/compose.yaml", demoFile} {
		check := fmt.Sprint(readComposeFile(t, file).Services["nats-1"].Healthcheck["test"])
		_, path, found := strings.Cut(strings.TrimSuffix(check, "]"), "http://127.0.0.1:8222")
		if !found {
			t.Fatalf("%s: the brokers' check is %s", file, check)
		}
		response := ask(t, "http://"+s.MonitorAddr().String()+path)
		if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s: a server without a leader is healthy: %s answers %s, %v", file, path, response.Status, err)
		}
	}
}
