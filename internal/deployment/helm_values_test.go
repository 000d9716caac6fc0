package deployment_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// Every variable that the chart sets is one of the program, and the probes ask what the program answers.
func TestChartSpeaksTheProgramsLanguage(t *testing.T) { //nolint:paralleltest // processes run one at a time
	variables, _ := settings(t)
	for values := range kindsOf {
		objects := render(t, values)
		container := objects["Deployment"].at("spec", "template", "spec", "containers", 0)
		c := object{"kind": values, "container": container}
		env := environmentOf(t, container)
		for name := range env {
			if !variables[name] && name != "POD_IP" && name != "GOMEMLIMIT" { // the last is the Go runtime's
				t.Errorf("%s sets %s, which the program does not know", values, name)
			}
		}
		c.wants(t, []any{"run"}, "container", "args")
		if values == "closed.yaml" {
			c.wants(t, []any{"/usr/bin/postrider", "healthcheck"}, "container", "livenessProbe", "exec", "command")
			c.wants(t, []any{"/usr/bin/postrider", "healthcheck", "--ready"}, "container", "readinessProbe", "exec", "command")
			if env["POSTRIDER_HTTP_ADDR"] != "127.0.0.1:8080" {
				t.Errorf("without a monitor it listens on %s", env["POSTRIDER_HTTP_ADDR"])
			}
			continue
		}
		c.wants(t, "/healthz", "container", "startupProbe", "httpGet", "path")
		c.wants(t, "/healthz", "container", "livenessProbe", "httpGet", "path")
		c.wants(t, "/readyz", "container", "readinessProbe", "httpGet", "path")
		if env["POSTRIDER_HTTP_ADDR"] != ":8080" || env["POSTRIDER_HTTP_USERS_FILE"] != "/run/postrider/users" {
			t.Errorf("%s: the monitor is open: %v", values, env)
		}
	}
	env := environmentOf(t, render(t, "full.yaml")["Deployment"].at("spec", "template", "spec", "containers", 0))
	for name, want := range map[string]string{
		"POSTRIDER_DATABASE_URL": "…", "POSTRIDER_NATS_URL": "…", "POSTRIDER_SCHEMA": "shop", "POSTRIDER_IN_FLIGHT": "2000000",
		"POSTRIDER_FORWARD_HEADER": "Source,Tenant", "POSTRIDER_CREATE_STREAM": "true", "POSTRIDER_RETRY_MAX": "90s",
		"POSTRIDER_HTTP_HOST": "ops.example.org,$(POD_IP),/ops/outbox", "POSTRIDER_HTTP_READ_ONLY": "true",
		"POSTRIDER_NATS_CREDS": "/run/postrider/nats.creds", "POSTRIDER_NATS_CONTEXT": "/run/postrider/context.json",
	} {
		if env[name] != want {
			t.Errorf("%s is %q, want %q", name, env[name], want)
		}
	}
}

// What the operators of Kubernetes are told fits together: names, ports, selectors, rules.
func TestChartIsWiredUp(t *testing.T) {
	t.Parallel()
	o := render(t, "full.yaml")
	o["ServiceMonitor"].wants(t, "http", "spec", "endpoints", 0, "port")
	o["Service"].wants(t, "http", "spec", "ports", 0, "name")
	o["Service"].wants(t, "http", "spec", "ports", 0, "targetPort")
	o["Deployment"].wants(t, "http", "spec", "template", "spec", "containers", 0, "ports", 0, "name")
	token := map[string]any{"name": "outbox-monitor", "key": "scrape-token"}
	o["ServiceMonitor"].wants(t, token, "spec", "endpoints", 0, "authorization", "credentials")
	users := map[string]any{"name": "outbox-monitor", "items": []any{map[string]any{"key": "users", "path": "users"}}}
	o["Deployment"].wants(t, users, "spec", "template", "spec", "volumes", 0, "projected", "sources", 0, "secret")
	o["Deployment"].wants(t, "/run/postrider", "spec", "template", "spec", "containers", 0, "volumeMounts", 0, "mountPath")
	o["Service"].wants(t, o["Deployment"].at("spec", "selector", "matchLabels"), "spec", "selector")
	service, _ := o["Service"].at("metadata", "labels").(map[string]any)
	wanted, _ := o["ServiceMonitor"].at("spec", "selector", "matchLabels").(map[string]any)
	for name, value := range wanted {
		if service[name] != value {
			t.Errorf("the ServiceMonitor wants label %s=%v of the Service, which has %v", name, value, service[name])
		}
	}
	var rules map[string]any
	if err := yaml.Unmarshal([]byte(read(t, alertsFile)), &rules); err != nil {
		t.Fatal(err)
	}
	o["PrometheusRule"].wants(t, rules, "spec")
	o["ConfigMap"].wants(t, read(t, "deploy/grafana/dashboard.json"), "data", "postrider.json")
	o["Deployment"].wants(t, nil, "spec", "replicas")
	render(t, "minimal.yaml")["Deployment"].wants(t, 3, "spec", "replicas")
	o["ScaledObject"].wants(t, o["Deployment"].at("metadata", "name"), "spec", "scaleTargetRef", "name")
	var queries []string
	for i := range 2 {
		query, _ := o["ScaledObject"].at("spec", "triggers", i, "metadata", "query").(string)
		if !strings.Contains(query, `namespace="outbox", job="shop-postrider"`) {
			t.Errorf("KEDA asks %s, which is not about this outbox alone", query)
		}
		queries = append(queries, query)
	}
	checkExpressions(t, queries)
	o["Job"].wants(t, []any{"migrate", "up", "--partitions=128"}, "spec", "template", "spec", "containers", 0, "args")
	if env := environmentOf(t, o["Job"].at("spec", "template", "spec", "containers", 0)); env["POSTRIDER_EVENTS_RELATION"] != "store.events" {
		t.Errorf("the migration is told %v", env)
	}
	o["Job"].wants(t, "pre-install,pre-upgrade", "metadata", "annotations", "helm.sh/hook")
	if reflect.DeepEqual(o["Job"].at("spec", "template", "metadata", "labels"), o["Deployment"].at("spec", "selector", "matchLabels")) {
		t.Error("the Service would send visitors to the migration")
	}
	render(t, "closed.yaml")["HorizontalPodAutoscaler"].wants(t, "shop-postrider", "spec", "scaleTargetRef", "name")
}

// Wrong values are refused, by name.
func TestChartRefusesWrongValues(t *testing.T) {
	t.Parallel()
	for set, complaint := range map[string]string{
		"replicaCount=-1":                                      "replicaCount",
		"replicas=3":                                           "replicas",
		"database.existingSecret=":                             "database.existingSecret",
		"database.schema=a-b":                                  "schema",
		"nats.url=":                                            "nats.url",
		"nats.url=localhost:4222":                              "url",
		"nats.existingSecret=more":                             "exclude each other",
		"monitor.existingSecret=":                              "monitor.existingSecret",
		"monitor.basePath=ops/":                                "basePath",
		"monitor.usersKey=":                                    "usersKey",
		"settings.leasettl=10s":                                "leasettl",
		"settings.lease-ttl=10":                                "lease-ttl",
		"settings.drain-timeout=1s":                            "drain-timeout",
		"settings.ordering=random":                             "ordering",
		"settings.http-addr=:1":                                "http-addr",
		"terminationGracePeriodSeconds=15":                     "terminationGracePeriodSeconds",
		"drainTimeoutSeconds=0":                                "drainTimeoutSeconds",
		"autoscaling.kind=vpa":                                 "autoscaling",
		"autoscaling.kind=keda":                                "prometheusAddress",
		"autoscaling.kind=hpa,autoscaling.minReplicas=9":       "minReplicas",
		"replicaCount=33":                                      "32",
		"migrate.enabled=true":                                 "migrate.existingSecret",
		"image.digest=sha256:12":                               "digest",
		"serviceMonitor.enabled=true,serviceMonitor.tokenKey=": "tokenKey",
		"serviceMonitor.enabled=true,monitor.enabled=false":    "needs monitor.enabled",
		"podDisruptionBudget.maxUnavailable=half":              "maxUnavailable",
	} {
		args := []string{"template", "shop", ".", "--values=ci/minimal.yaml", "--set=" + set}
		if _, stderr, err := helm(t, args...); err == nil || !strings.Contains(stderr, complaint) {
			t.Errorf("%s: %v, want a complaint about %s:\n%s", set, err, complaint, stderr)
		}
	}
}

// The schema knows each setting of the program, save those that the chart sets itself.
func TestChartKnowsEachSetting(t *testing.T) { //nolint:paralleltest // processes run one at a time
	_, flags := settings(t)
	var schema struct {
		Properties map[string]struct{ Properties map[string]any }
	}
	if err := json.Unmarshal([]byte(read(t, chart+"/values.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	own := []string{
		"config", "database-url", "schema", "nats-url", "nats-creds", "nats-ca", "nats-context", "drain-timeout", // values of their own
		"once", "no-leasing", "json", "silent", "window", // not for a cluster in the background
	}
	for flag := range flags {
		if !slices.Contains(own, flag) && !strings.HasPrefix(flag, "http-") && schema.Properties["settings"].Properties[flag] == nil {
			t.Errorf("values.schema.json does not know the setting %s", flag)
		}
	}
	for name := range schema.Properties["settings"].Properties {
		if !flags[name] || slices.Contains(own, name) {
			t.Errorf("values.schema.json knows a setting %s, which the program has not", name)
		}
	}
	var values map[string]any
	readYAML(t, chart+"/values.yaml", &values)
	known := slices.Sorted(maps.Keys(schema.Properties))
	known = slices.DeleteFunc(known, func(s string) bool { return s == "global" })
	if got := slices.Sorted(maps.Keys(values)); !slices.Equal(got, known) {
		t.Errorf("values.yaml has %v, the schema %v", got, known)
	}
}
