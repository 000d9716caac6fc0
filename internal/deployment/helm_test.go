package deployment_test

import (
	"errors"
	"io"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const chart = "deploy/helm/postrider"

// object is a Kubernetes object, or a part of one.
type object map[string]any

// at follows keys and indices to a value; nil when there is none.
func (o object) at(path ...any) any {
	var value any = map[string]any(o)
	for _, step := range path {
		switch key := step.(type) {
		case string:
			m, _ := value.(map[string]any)
			value = m[key]
		case int:
			list, _ := value.([]any)
			if key >= len(list) {
				return nil
			}
			value = list[key]
		}
	}
	return value
}

func (o object) wants(t *testing.T, want any, path ...any) {
	t.Helper()
	if got := o.at(path...); !reflect.DeepEqual(got, want) {
		t.Errorf("%v %v is %v, want %v", o["kind"], path, got, want)
	}
}

// helm runs the program in the chart's folder, as against Kubernetes 1.34.
func helm(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return execute(t, filepath.Join(root, chart), tool(t, "helm", "POSTRIDER_HELM"), append(args, "--kube-version=1.34.0")...)
}

// render is what the chart makes of a file of values and further settings, by kind.
func render(t *testing.T, values string, sets ...string) map[string]object {
	t.Helper()
	args := []string{"template", "shop", ".", "--namespace=outbox", "--values=ci/" + values}
	for _, s := range sets {
		args = append(args, "--set="+s)
	}
	stdout, stderr, err := helm(t, args...)
	if err != nil {
		t.Fatalf("helm template %s: %v\n%s", values, err, stderr)
	}
	objects := map[string]object{}
	for decoder := yaml.NewDecoder(strings.NewReader(stdout)); ; {
		var o map[string]any // the decoder gives nested maps the type of the outer one
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("%s: %v", values, err)
		}
		if o == nil {
			continue
		}
		kind, _ := o["kind"].(string)
		if objects[kind] != nil {
			t.Errorf("%s makes two objects of kind %s", values, kind)
		}
		objects[kind] = o
	}
}

// environmentOf are a container's variables; those from elsewhere have the value "…".
func environmentOf(t *testing.T, container any) map[string]string {
	t.Helper()
	c, ok := container.(map[string]any)
	if !ok {
		t.Fatal("there is no container")
	}
	list, _ := c["env"].([]any)
	env := map[string]string{}
	for _, item := range list {
		entry, _ := item.(map[string]any)
		name, _ := entry["name"].(string)
		if _, twice := env[name]; twice {
			t.Errorf("variable %s is set twice", name)
		}
		value, plain := entry["value"].(string)
		if !plain {
			value = "…"
		}
		env[name] = value
	}
	return env
}

var kindsOf = map[string][]string{
	"minimal.yaml": {"Deployment", "PodDisruptionBudget", "Service", "ServiceAccount"},
	"full.yaml": {
		"ConfigMap", "Deployment", "Job", "NetworkPolicy", "PodDisruptionBudget", "PrometheusRule", "ScaledObject", "Service",
		"ServiceAccount", "ServiceMonitor",
	},
	"closed.yaml": {"Deployment", "HorizontalPodAutoscaler"},
}

// The chart passes helm's own checks, makes what each file of values asks for, and nothing else.
func TestChartMakesWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	for values, want := range kindsOf {
		if stdout, stderr, err := helm(t, "lint", ".", "--strict", "--values=ci/"+values); err != nil {
			t.Errorf("helm lint %s: %v\n%s%s", values, err, stdout, stderr)
		}
		objects := render(t, values)
		if kinds := slices.Sorted(maps.Keys(objects)); !slices.Equal(kinds, want) {
			t.Errorf("%s makes %v, want %v", values, kinds, want)
		}
		for kind, o := range objects {
			o.wants(t, "postrider", "metadata", "labels", "app.kubernetes.io/name")
			o.wants(t, "shop", "metadata", "labels", "app.kubernetes.io/instance")
			if kind == "Deployment" || kind == "PodDisruptionBudget" {
				selector, _ := o.at("spec", "selector", "matchLabels").(map[string]any)
				if len(selector) != 3 || selector["app.kubernetes.io/component"] != "worker" {
					t.Errorf("%s: %s selects %v", values, kind, selector)
				}
			}
		}
	}
}

// Nothing runs as root, writes to its image, or holds a token of the cluster.
func TestChartIsConfined(t *testing.T) {
	t.Parallel()
	for values := range kindsOf {
		for kind, o := range render(t, values) {
			if kind != "Deployment" && kind != "Job" {
				continue
			}
			pod := object{"kind": values + " " + kind, "spec": o.at("spec", "template", "spec")}
			pod.wants(t, false, "spec", "automountServiceAccountToken")
			pod.wants(t, true, "spec", "securityContext", "runAsNonRoot")
			pod.wants(t, 65532, "spec", "securityContext", "runAsUser")
			pod.wants(t, "RuntimeDefault", "spec", "securityContext", "seccompProfile", "type")
			pod.wants(t, false, "spec", "containers", 0, "securityContext", "allowPrivilegeEscalation")
			pod.wants(t, true, "spec", "containers", 0, "securityContext", "readOnlyRootFilesystem")
			pod.wants(t, []any{"ALL"}, "spec", "containers", 0, "securityContext", "capabilities", "drop")
			pod.wants(t, nil, "spec", "containers", 1)
			pod.wants(t, nil, "spec", "containers", 0, "resources", "limits", "cpu")
			for _, bound := range []string{"requests", "limits"} {
				if pod.at("spec", "containers", 0, "resources", bound, "memory") == nil {
					t.Errorf("%s: %s has no %s of memory", values, kind, bound)
				}
			}
		}
	}
}

// What the program has at its end is what the pod gives it: pause + drain + its own bound fit into the grace period.
func TestChartKeepsTheShutdownBudget(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values       string
		sets         []string
		drain, pause int
		grace        int
	}{
		{"minimal.yaml", nil, 5, 3, 28},
		{"full.yaml", nil, 20, 10, 65},
		{"closed.yaml", nil, 5, 3, 60},
		{"minimal.yaml", []string{"drainTimeoutSeconds=60", "preStopSleepSeconds=30"}, 60, 30, 165},
	} {
		d := render(t, c.values, c.sets...)["Deployment"]
		d.wants(t, c.grace, "spec", "template", "spec", "terminationGracePeriodSeconds")
		d.wants(t, c.pause, "spec", "template", "spec", "containers", 0, "lifecycle", "preStop", "sleep", "seconds")
		drain := environmentOf(t, d.at("spec", "template", "spec", "containers", 0))["POSTRIDER_DRAIN_TIMEOUT"]
		checkBudget(t, c.values, drain, c.pause, c.grace)
	}
}
