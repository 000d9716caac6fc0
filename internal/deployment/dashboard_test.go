package deployment_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

type dashboard struct {
	UID, Title string
	Templating struct {
		List []struct {
			Name, Type string
			Definition string
		}
	}
	Panels []panel
}

type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int }
	Datasource               struct{ Type, UID string }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []target
}

type target struct {
	RefID, Expr string
	Datasource  struct{ UID string }
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal([]byte(read(t, "deploy/grafana/dashboard.json")), &d); err != nil {
		t.Fatal(err)
	}
	if d.UID != "postrider" || len(d.Panels) < 20 {
		t.Fatalf("dashboard %q has %d panels", d.UID, len(d.Panels))
	}
	return d
}

// Each panel says what it shows, in which unit, and takes its data from the data source that the reader chose.
func TestDashboardPanels(t *testing.T) {
	t.Parallel()
	d := readDashboard(t)
	var variables []string
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
	}
	if want := []string{"datasource", "cluster", "namespace", "job", "instance"}; !slices.Equal(variables, want) {
		t.Errorf("the dashboard has the variables %v, want %v", variables, want)
	}
	sources := regexp.MustCompile(`"type": "prometheus",\s*"uid": "([^"]*)"`)
	for _, source := range sources.FindAllStringSubmatch(read(t, "deploy/grafana/dashboard.json"), -1) {
		if source[1] != "${datasource}" {
			t.Errorf("the dashboard is tied to the data source %s", source[1])
		}
	}
	ids := map[int]bool{}
	var expressions []string
	for i, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 {
			t.Errorf("panel %s has the id of another one", p.Title)
		}
		ids[p.ID] = true
		for _, other := range d.Panels[:i] {
			a, b := p.GridPos, other.GridPos
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("panels %s and %s overlap", p.Title, other.Title)
			}
		}
		if p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %s is wider than the page", p.Title)
		}
		if p.Type == "row" {
			continue
		}
		described := p.Title != "" && p.Description != "" && p.FieldConfig.Defaults.Unit != ""
		if !described || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
			t.Errorf("panel %d (%s) lacks a title, a description, a unit, the chosen data source or a query", p.ID, p.Title)
		}
		for _, q := range p.Targets {
			if q.Datasource.UID != "${datasource}" || !strings.Contains(q.Expr, `job=~"$job`) || !strings.Contains(q.Expr, `cluster=~"$cluster`) {
				t.Errorf("panel %s: %s does not keep to the chosen outbox", p.Title, q.Expr)
			}
			expressions = append(expressions, strings.ReplaceAll(q.Expr, "$__rate_interval", "5m"))
		}
	}
	checkExpressions(t, expressions)
}

// Whoever is woken by an alert finds a panel that names it and shows what it is about.
func TestDashboardShowsEachAlert(t *testing.T) {
	t.Parallel()
	d := readDashboard(t)
	for _, a := range alerts(t) {
		metrics := metricName.FindAllString(a.Expr, -1)
		shown := slices.ContainsFunc(d.Panels, func(p panel) bool {
			return strings.Contains(p.Description, a.Alert+":") && slices.ContainsFunc(metrics, func(name string) bool {
				return slices.ContainsFunc(p.Targets, func(q target) bool { return strings.Contains(q.Expr, name) })
			})
		})
		if !shown {
			t.Errorf("no panel names %s and shows its metric", a.Alert)
		}
	}
}
