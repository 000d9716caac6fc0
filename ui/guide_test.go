package ui_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/postrider/postrider/delivery/ops"
)

func readGuide(t *testing.T) string {
	t.Helper()
	guide, err := os.ReadFile("../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(guide)
}

// The guide names every code and every address.
func TestTheGuideIsComplete(t *testing.T) {
	t.Parallel()
	guide := readGuide(t)
	text, err := os.ReadFile("api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var parsed document
	if err := yaml.Unmarshal(text, &parsed); err != nil {
		t.Fatal(err)
	}
	_, codes := resolve(parsed, "", document{"$ref": "#/components/schemas/Code"})
	for _, code := range list(codes["enum"]) {
		if code != "internal" && !strings.Contains(guide, fmt.Sprintf("`%s`", code)) {
			t.Errorf("docs/api.md lacks the code %s", code)
		}
	}
	for path := range object(parsed["paths"]) {
		if base, _, _ := strings.Cut(path, "{"); !strings.Contains(guide, strings.TrimSuffix(base, "/")) {
			t.Errorf("docs/api.md lacks %s", path)
		}
	}
}

// The guide's table has each code in the row of its status, and no other one.
func TestTheGuideKnowsEachStatus(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var parsed document
	if err := yaml.Unmarshal(text, &parsed); err != nil {
		t.Fatal(err)
	}
	statuses := map[string]string{"internal": "500"} // by code; that one may come from everywhere
	for _, item := range object(parsed["paths"]) {
		for _, operation := range object(item) {
			for status, answer := range object(object(operation)["responses"]) {
				_, answer := resolve(parsed, "", answer)
				for _, part := range list(object(object(object(answer["content"])["application/json"])["schema"])["allOf"]) {
					problem := object(object(object(part)["properties"])["error"])
					for _, code := range list(object(object(problem["properties"])["code"])["enum"]) {
						statuses[fmt.Sprint(code)] = status
					}
				}
			}
		}
	}
	if len(statuses) < 20 {
		t.Fatalf("openapi.yaml gives only %d codes a status", len(statuses))
	}
	codes := list(object(object(object(parsed["components"])["schemas"])["Code"])["enum"])
	for _, code := range codes {
		if statuses[fmt.Sprint(code)] == "" {
			t.Errorf("openapi.yaml gives %s no status", code)
		}
	}
	if len(codes) != len(statuses) {
		t.Errorf("openapi.yaml gives %d codes a status and lists %d", len(statuses), len(codes))
	}
	row, code := regexp.MustCompile(`(?m)^\| ([45][^|]*)\|([^|]*)\|`), regexp.MustCompile("`([a-z_]+)`")
	for _, cells := range row.FindAllStringSubmatch(readGuide(t), -1) {
		for _, m := range code.FindAllStringSubmatch(cells[2], -1) {
			if want := statuses[m[1]]; want == "" || !strings.Contains(cells[1], want) {
				t.Errorf("docs/api.md has %s under %sopenapi.yaml under %q", m[1], cells[1], want)
			}
			delete(statuses, m[1])
		}
	}
	for code := range statuses {
		t.Errorf("docs/api.md has no row for %s", code)
	}
}

// What the guide tells people to send is what openapi.yaml takes, and what it shows is what comes back.
func TestTheGuidesExamples(t *testing.T) {
	t.Parallel()
	c, err := theContract()
	if err != nil {
		t.Fatal(err)
	}
	guide, tried := readGuide(t), 0
	for _, m := range regexp.MustCompile(`(?m)^post (\S+) '(.*)'`).FindAllStringSubmatch(guide, -1) {
		op, known := c.operation(http.MethodPost, "/api/v1"+m[1])
		if tried++; !known {
			t.Errorf("docs/api.md posts to %s", m[1])
			continue
		}
		c.fits(t, m[0], op.pointer+"/requestBody/content/application~1json/schema", m[2])
	}
	for _, m := range regexp.MustCompile(`(?m)^curl .*\$API(/[^\s"?]+)(?:\?([^\s"]+))?`).FindAllStringSubmatch(guide, -1) {
		op, known := c.operation(http.MethodGet, "/api/v1"+m[1])
		values, err := url.ParseQuery(m[2])
		if tried++; !known || err != nil {
			t.Errorf("docs/api.md asks for %s: %v", m[0], err)
		}
		for name := range values {
			if op.parameters[name] != "query" {
				t.Errorf("docs/api.md gives %s the parameter %s", m[1], name)
			}
		}
	}
	if tried < 14 {
		t.Errorf("only %d examples were tried", tried)
	}
	shown := regexp.MustCompile("(?s)```json\n(.*?)\n```").FindAllStringSubmatch(guide, -1)
	if len(shown) != 2 {
		t.Fatalf("docs/api.md shows %d answers", len(shown))
	}
	var mended ops.MendBody
	if err := json.Unmarshal([]byte(shown[0][1]), &mended); err != nil {
		t.Fatal(err)
	}
	if again, err := json.Marshal(mended); err != nil || !bytes.Equal(again, []byte(shown[0][1])) {
		t.Errorf("docs/api.md shows %s; it comes as %s, %v", shown[0][1], again, err)
	}
	c.fits(t, "an error", "/components/schemas/Problem", shown[1][1])
}
