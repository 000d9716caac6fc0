package deployment_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const alertsFile = "deploy/prometheus/alerts.yaml"

type alert struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func alerts(t *testing.T) []alert {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string
			Rules []alert
		}
	}
	readYAML(t, alertsFile, &file)
	if len(file.Groups) != 1 || len(file.Groups[0].Rules) < 12 {
		t.Fatalf("%s holds %d groups", alertsFile, len(file.Groups))
	}
	return file.Groups[0].Rules
}

// Everybody who is woken finds what it means, how bad it is and where to read on.
func TestAlertsSayWhatToDo(t *testing.T) {
	t.Parallel()
	const runbook = "https://github.com/postrider/postrider/blob/main/docs/runbook.md#"
	anchors := anchorsOf(read(t, "docs/runbook.md"))
	sections := strings.Split(read(t, "docs/runbook.md"), "\n## ")
	for _, a := range alerts(t) {
		if !slices.Contains([]string{"info", "warning", "critical"}, a.Labels["severity"]) {
			t.Errorf("%s has severity %q", a.Alert, a.Labels["severity"])
		}
		if a.Annotations["summary"] == "" || a.Annotations["description"] == "" {
			t.Errorf("%s lacks a summary or a description", a.Alert)
		}
		anchor, found := strings.CutPrefix(a.Annotations["runbook_url"], runbook)
		if !found || !anchors[anchor] || anchor != strings.ToLower(a.Alert) {
			t.Errorf("%s: no section of the runbook is at %s", a.Alert, a.Annotations["runbook_url"])
		}
		section := slices.IndexFunc(sections, func(s string) bool { return strings.HasPrefix(s, a.Alert+"\n") })
		if section < 0 {
			t.Errorf("the runbook has no section %s", a.Alert)
			continue
		}
		for _, part := range []string{"**Meaning.**", "**First look.**", "**Cure.**"} {
			if !strings.Contains(sections[section], part) {
				t.Errorf("the runbook's section %s lacks %s", a.Alert, part)
			}
		}
	}
	for _, section := range sections[1:] {
		name, _, _ := strings.Cut(section, "\n")
		if strings.HasPrefix(name, "Postrider") && !slices.ContainsFunc(alerts(t), func(a alert) bool { return a.Alert == name }) {
			t.Errorf("the runbook has a section %s, and there is no such alert", name)
		}
	}
}

// promtool checks the rules and runs their tests, and each rule has a case in which it fires and one in which it does not.
func TestAlertsFireWhenTheyShould(t *testing.T) {
	t.Parallel()
	var cases struct {
		RuleFiles          []string `yaml:"rule_files"`
		EvaluationInterval string   `yaml:"evaluation_interval"`
		Tests              []struct {
			Name          string
			Interval      string
			InputSeries   []struct{ Series, Values string } `yaml:"input_series"`
			AlertRuleTest []struct {
				Alertname string
				EvalTime  string `yaml:"eval_time"`
				ExpAlerts []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	readYAML(t, "deploy/prometheus/alerts_test.yaml", &cases)
	fires, quiet := map[string]int{}, map[string]int{}
	for _, c := range cases.Tests {
		for _, expectation := range c.AlertRuleTest {
			if len(expectation.ExpAlerts) > 0 {
				fires[expectation.Alertname]++
			} else {
				quiet[expectation.Alertname]++
			}
		}
	}
	for _, a := range alerts(t) {
		if fires[a.Alert] < 1 || quiet[a.Alert] < 2 { // a case of its own, and that in which all is well
			t.Errorf("%s is tested to come %d times and not to come %d times", a.Alert, fires[a.Alert], quiet[a.Alert])
		}
	}
	promtool := tool(t, "promtool", "POSTRIDER_PROMTOOL")
	folder := filepath.Join(root, "deploy/prometheus")
	for _, args := range [][]string{{"check", "rules", "--lint=all", "--lint-fatal", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		if stdout, stderr, err := execute(t, folder, promtool, args...); err != nil {
			t.Errorf("promtool %s: %v\n%s%s", strings.Join(args, " "), err, stdout, stderr)
		}
	}
}

// checkExpressions has promtool parse expressions, as the rules of a file.
func checkExpressions(t *testing.T, expressions []string) {
	t.Helper()
	promtool := tool(t, "promtool", "POSTRIDER_PROMTOOL")
	text := "groups:\n- name: expressions\n  rules:\n"
	for i, e := range expressions {
		text += fmt.Sprintf("  - record: expression:%d\n    expr: %q\n", i, e)
	}
	if stdout, stderr, err := execute(t, root, promtool, "check", "rules", write(t, "rules.yaml", text)); err != nil {
		t.Errorf("promtool: %v\n%s%s", err, stdout, stderr)
	}
}
