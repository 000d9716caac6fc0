package deployment_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testkit/clustertest"
)

// quiet are the panels without data while nothing is wrong.
var quiet = []string{"Alerts", "Delivery paused", "Partitions that wait"}

// variables of the dashboard as Grafana fills them in while everything is chosen; its least rate interval is four scrapes.
var variables = strings.NewReplacer("$__rate_interval", "1m", "$cluster", ".*", "$namespace", ".*", "$job", ".*", "$instance", ".*")

// Prometheus, configured as the demo's, finds the three workers and logs in, evaluates each alert, and answers each query of the
// dashboard with figures.
func TestPrometheusAnswersTheDashboard(t *testing.T) {
	t.Parallel()
	program := os.Getenv("POSTRIDER_PROMETHEUS") // to build it takes minutes: not in every run
	if program == "" {
		t.Skip("prometheus is missing: make test/dashboard provides it")
	}
	demo := readComposeFile(t, demoFile).Configs
	c := clustertest.New(t, clustertest.Config{Partitions: 8})
	config := demo["prometheus"]["content"]
	workers := c.Start(t, 3, "--http-addr=127.0.0.1:0", "--http-users-file="+write(t, "users", demo["users"]["content"]), "--canary=1s", "--audit=10s")
	for i, w := range workers {
		config = strings.ReplaceAll(config, fmt.Sprintf("postrider-%d:8080", i+1), strings.TrimPrefix(w.Monitor(t), "http://"))
	}
	rules, err := filepath.Abs(filepath.Join(root, "deploy/prometheus/alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	config = strings.Replace(config, "scrape_interval: 5s", "scrape_interval: 1s, evaluation_interval: 1s", 1) + "rule_files: [" + rules + "]\n"
	load := c.Produce(t, clustertest.Load{})
	server := startPrometheus(t, program, config)

	server.eventually(t, "three workers are scraped", func(ctx context.Context) (missing []string, err error) {
		var answer struct {
			ActiveTargets []struct{ Health, LastError, ScrapeURL string }
		}
		if err := server.ask(ctx, "targets", nil, &answer); err != nil {
			return nil, err
		}
		missing = make([]string, max(0, len(workers)-len(answer.ActiveTargets)))
		for _, target := range answer.ActiveTargets {
			if target.Health != "up" {
				missing = append(missing, target.ScrapeURL+": "+target.LastError)
			}
		}
		return missing, nil
	})
	scraped := time.Now()
	server.eventually(t, "each alert is evaluated", func(ctx context.Context) (missing []string, err error) {
		var answer struct {
			Groups []struct {
				Rules []struct {
					Name, Health   string
					LastEvaluation time.Time
				}
			}
		}
		err = server.ask(ctx, "rules", nil, &answer)
		healthy := map[string]bool{}
		for _, group := range answer.Groups {
			for _, rule := range group.Rules {
				healthy[rule.Name] = rule.Health == "ok" && rule.LastEvaluation.After(scraped)
			}
		}
		for _, a := range alerts(t) {
			if !healthy[a.Alert] {
				missing = append(missing, a.Alert)
			}
		}
		return missing, err
	})
	server.eventually(t, "each query of the dashboard has figures", func(ctx context.Context) (missing []string, err error) {
		return server.unanswered(ctx, readDashboard(t))
	})
	var instances []string
	if err := server.ask(t.Context(), "label/instance/values", url.Values{"match[]": {"outbox_build_info"}}, &instances); err != nil || len(instances) != 3 {
		t.Errorf("the dashboard lets choose among %v: %v", instances, err)
	}
	load.Stop(t)
}

// prometheus is a server under test.
type prometheus struct{ url string }

var listens = regexp.MustCompile(`msg="Listening on" component=web address=(\S+)`)

func startPrometheus(t *testing.T, program, config string) prometheus {
	t.Helper()
	p := clustertest.LaunchBinary(t, "prometheus", program, nil, "--config.file="+write(t, "prometheus.yml", config),
		"--storage.tsdb.path="+t.TempDir(), "--web.listen-address=127.0.0.1:0")
	var found []string
	clustertest.Until(t, "Prometheus listens", func(context.Context) (bool, error) {
		select {
		case <-p.Ended():
			return false, errors.New("Prometheus ended")
		default:
		}
		found = listens.FindStringSubmatch(p.Stderr())
		return found != nil && strings.Contains(p.Stderr(), "Server is ready to receive web requests"), nil
	}, p.Stderr)
	return prometheus{"http://" + found[1] + "/api/v1/"}
}

// eventually waits until nothing is missing, and tells what is.
func (p prometheus) eventually(t *testing.T, what string, look func(context.Context) (missing []string, err error)) {
	t.Helper()
	missing := []string{what}
	clustertest.Until(t, what, func(ctx context.Context) (bool, error) {
		now, err := look(ctx)
		if err == nil { // the last look may have run out of time
			missing = now
		}
		return len(missing) == 0, err
	}, func() string { return strings.Join(missing, "\n") })
}

// ask decodes what Prometheus's API answers.
func (p prometheus) ask(ctx context.Context, path string, values url.Values, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path+"?"+values.Encode(), nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: into}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s %v: %s", path, values, answer.Error)
	}
	return nil
}

// unanswered are the queries without a figure, of panels that have some while nothing is wrong.
func (p prometheus) unanswered(ctx context.Context, d dashboard) (missing []string, err error) {
	for _, panel := range d.Panels {
		for _, q := range panel.Targets {
			var answer struct {
				Result []struct {
					Metric map[string]string
					Value  [2]any
				}
			}
			query := variables.Replace(q.Expr)
			if err := p.ask(ctx, "query", url.Values{"query": {query}}, &answer); err != nil {
				return nil, err
			}
			figures := map[string]bool{}
			for _, series := range answer.Result {
				figures[fmt.Sprint(series.Value[1])] = true
			}
			delete(figures, "NaN")
			if len(figures) == 0 && !slices.Contains(quiet, panel.Title) {
				missing = append(missing, fmt.Sprintf("%s: %s", panel.Title, query))
			}
		}
	}
	return missing, nil
}
