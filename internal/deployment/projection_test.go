package deployment_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// projectionCases are tests of deploy/prometheus/projections.yaml: one that comes and one that doesn't, of each.
const projectionCases = `
rule_files: [rules.yaml]
evaluation_interval: 1m
tests:
  - name: all is well
    interval: 1m
    input_series:
      - {series: 'outbox_projection_dead_heads{job="shop", instance="a", projection="files"}', values: '0x30'}
      - {series: 'outbox_projection_oldest_due_age_seconds{job="shop", instance="a", projection="files"}', values: '70 2x30'}
    alert_rule_test:
      - {alertname: ProjectionDead, eval_time: 20m, exp_alerts: []}
      - {alertname: ProjectionBehind, eval_time: 20m, exp_alerts: []}
  - name: two streams stand still, as both processes say, and the others of another projection are late
    interval: 1m
    input_series:
      - {series: 'outbox_projection_dead_heads{job="shop", instance="a", projection="files"}', values: '0 2x30'}
      - {series: 'outbox_projection_dead_heads{job="shop", instance="b", projection="files"}', values: '0 2x30'}
      - {series: 'outbox_projection_oldest_due_age_seconds{job="shop", instance="a", projection="bills"}', values: '90x30'}
    alert_rule_test:
      - alertname: ProjectionDead
        eval_time: 5m
        exp_alerts:
          - exp_labels: {severity: warning, job: shop, projection: files}
            exp_annotations:
              summary: 2 streams of projection files stand still
              description: The next event of each of them was given up. What comes behind it waits until a person requeues it.
              runbook_url: https://github.com/postrider/postrider/blob/main/docs/projection.md#projectiondead
      - {alertname: ProjectionBehind, eval_time: 4m, exp_alerts: []}
      - alertname: ProjectionBehind
        eval_time: 6m
        exp_alerts:
          - exp_labels: {severity: warning, job: shop, projection: bills}
            exp_annotations:
              summary: Projection bills is late by 1m 30s
              description: A stream could have been applied 1m 30s ago, and no worker has taken it.
              runbook_url: https://github.com/postrider/postrider/blob/main/docs/projection.md#projectionbehind
`

// The rules that programs with package projection are advised to use are valid, fire when they should, and say where to read on.
func TestProjectionRules(t *testing.T) {
	t.Parallel()
	const file = "deploy/prometheus/projections.yaml"
	anchors, rules := anchorsOf(read(t, "docs/projection.md")), read(t, file)
	for _, anchor := range []string{"projectiondead", "projectionbehind"} {
		if !anchors[anchor] || !strings.Contains(rules, "docs/projection.md#"+anchor+"\n") {
			t.Errorf("no rule leads to #%s, or there is no such section", anchor)
		}
	}
	promtool := tool(t, "promtool", "POSTRIDER_PROMTOOL")
	absolute, err := filepath.Abs(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	cases := write(t, "cases.yaml", strings.Replace(projectionCases, "rules.yaml", absolute, 1))
	for _, args := range [][]string{{"check", "rules", "--lint=all", "--lint-fatal", file}, {"test", "rules", cases}} {
		if stdout, stderr, err := execute(t, root, promtool, args...); err != nil {
			t.Errorf("promtool %s: %v\n%s%s", strings.Join(args, " "), err, stdout, stderr)
		}
	}
}
