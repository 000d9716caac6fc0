package ui_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/postrider/postrider/ui"
)

// contract is openapi.yaml, as far as answers are compared with it.
type contract struct {
	compiler   *jsonschema.Compiler
	operations []operation

	mu       sync.Mutex
	compiled map[string]*jsonschema.Schema
}

// operation is one method of one path.
type operation struct {
	method, path, pointer string
	id, tag               string
	parameters            map[string]string // by name: where they are
	body                  bool
	responses             map[string]response
}

// response is what one status answers with; pointer leads to it.
type response struct {
	pointer string
	kinds   map[string]bool // content types: whether there is a schema
}

type document = map[string]any

const contractURL = "https://postrider.invalid/openapi.json"

// mixins are parts of other schemas; what they do not name may be named there.
var mixins = []string{"Freshness", "PartitionFields", "MessageFields", "Problem"}

var theContract = sync.OnceValues(readContract)

func readContract() (*contract, error) {
	text, err := os.ReadFile("api/openapi.yaml")
	if err != nil {
		return nil, err
	}
	var parsed document
	if err := yaml.Unmarshal(text, &parsed); err != nil {
		return nil, err
	}
	schemas := object(object(parsed["components"])["schemas"])
	for name, schema := range schemas {
		strict(schema, slices.Contains(mixins, name))
	}
	encoded, err := json.Marshal(parsed)
	if err != nil {
		return nil, err
	}
	plain, err := jsonschema.UnmarshalJSON(bytes.NewReader(encoded))
	if err != nil {
		return nil, err
	}
	c := &contract{compiler: jsonschema.NewCompiler(), compiled: map[string]*jsonschema.Schema{}}
	c.compiler.DefaultDraft(jsonschema.Draft2020)
	c.compiler.AssertFormat()
	if err := c.compiler.AddResource(contractURL, plain); err != nil {
		return nil, err
	}
	return c, c.readOperations(parsed)
}

// strict has a schema refuse fields that it does not name: clients must bear new
// ones, but none may be there without being documented.
func strict(node any, mixin bool) {
	schema := object(node)
	properties, has := schema["properties"].(document)
	if _, closed := schema["additionalProperties"]; !mixin && !closed && (has || schema["allOf"] != nil) {
		schema["unevaluatedProperties"] = false
	}
	for _, property := range properties {
		strict(property, false)
	}
	if schema["items"] != nil {
		strict(schema["items"], false)
	}
}

func (c *contract) readOperations(parsed document) error {
	for path, item := range object(parsed["paths"]) {
		for method, value := range object(item) {
			o := object(value)
			op := operation{
				method: strings.ToUpper(method), path: "/api/v1" + path, pointer: "/paths/" + escaped(path) + "/" + method,
				id: fmt.Sprint(o["operationId"]), tag: fmt.Sprint(list(o["tags"])[0]), parameters: map[string]string{}, body: o["requestBody"] != nil, responses: map[string]response{},
			}
			for _, p := range list(o["parameters"]) {
				_, p := resolve(parsed, "", p)
				op.parameters[fmt.Sprint(p["name"])] = fmt.Sprint(p["in"])
			}
			for status, r := range object(o["responses"]) {
				pointer, r := resolve(parsed, op.pointer+"/responses/"+status, r)
				one := response{pointer: pointer, kinds: map[string]bool{}}
				for kind, media := range object(r["content"]) {
					one.kinds[kind] = object(media)["schema"] != nil
				}
				op.responses[status] = one
			}
			c.operations = append(c.operations, op)
		}
	}
	slices.SortFunc(c.operations, func(a, b operation) int { return strings.Compare(a.id, b.id) })
	if len(c.operations) == 0 {
		return fmt.Errorf("openapi.yaml has no operations")
	}
	return nil
}

func object(value any) document {
	o, _ := value.(document)
	return o
}

func list(value any) []any {
	l, _ := value.([]any)
	return l
}

// resolve follows a reference into the document.
func resolve(parsed document, pointer string, value any) (string, document) {
	node := object(value)
	reference, ok := node["$ref"].(string)
	if !ok {
		return pointer, node
	}
	reference = strings.TrimPrefix(reference, "#")
	var at any = parsed
	for _, name := range strings.Split(reference, "/")[1:] {
		at = object(at)[name]
	}
	return reference, object(at)
}

func escaped(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

func (c *contract) schema(pointer string) (*jsonschema.Schema, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.compiled[pointer]; ok {
		return s, nil
	}
	s, err := c.compiler.Compile(contractURL + "#" + (&url.URL{Path: pointer}).EscapedPath())
	if err == nil {
		c.compiled[pointer] = s
	}
	return s, err
}

// operation finds what a request asks for; of two templates the plainer one.
func (c *contract) operation(method, path string) (operation, bool) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	parts := strings.Split(path, "/")
	fits := func(op operation) bool {
		pattern := strings.Split(op.path, "/")
		if op.method != method || len(pattern) != len(parts) {
			return false
		}
		for i, p := range pattern {
			if p != parts[i] && !strings.HasPrefix(p, "{") {
				return false
			}
		}
		return true
	}
	var found []operation
	for _, op := range c.operations {
		if fits(op) {
			found = append(found, op)
		}
	}
	if len(found) == 0 {
		return operation{}, false
	}
	return slices.MinFunc(found, func(a, b operation) int { return strings.Count(a.path, "{") - strings.Count(b.path, "{") }), true
}

// check compares an answer, and the request when it was taken, with the
// document. It returns the operation.
func (c *contract) check(t *testing.T, got answer, body string) operation {
	t.Helper()
	request := got.Request
	op, ok := c.operation(request.Method, request.URL.EscapedPath())
	if !ok {
		t.Errorf("%s %s is not in openapi.yaml", request.Method, request.URL.Path)
		return op
	}
	r, ok := op.responses[strconv.Itoa(got.StatusCode)]
	if !ok {
		t.Errorf("%s: status %d is not in openapi.yaml; body %s", op.id, got.StatusCode, got.text)
		return op
	}
	kind, _, err := mime.ParseMediaType(got.Header.Get("Content-Type"))
	schema, known := r.kinds[kind]
	if err != nil || !known {
		t.Errorf("%s: status %d with content type %q; there are %v", op.id, got.StatusCode, kind, r.kinds)
		return op
	}
	if schema && kind == "application/json" && request.Method != http.MethodHead {
		c.fits(t, op.id, r.pointer+"/content/"+escaped(kind)+"/schema", got.text)
	}
	if got.StatusCode == http.StatusOK {
		for name := range request.URL.Query() {
			if op.parameters[name] != "query" {
				t.Errorf("%s takes the parameter %s, which is not in openapi.yaml", op.id, name)
			}
		}
		if op.body {
			c.fits(t, op.id, op.pointer+"/requestBody/content/application~1json/schema", body)
		}
	}
	return op
}

func (c *contract) fits(t *testing.T, id, pointer, text string) {
	t.Helper()
	schema, err := c.schema(pointer)
	if err != nil {
		t.Errorf("%s: %v", id, err)
		return
	}
	instance, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Errorf("%s: %v in %s", id, err, text)
		return
	}
	if err := schema.Validate(instance); err != nil {
		t.Errorf("%s: %v\nin %s", id, err, text)
	}
}

// api sends a request to the API and compares the answer with openapi.yaml.
func api(t *testing.T, server *httptest.Server, method, path, body string, edit ...func(*http.Request)) answer {
	t.Helper()
	if method == http.MethodPost {
		edit = slices.Concat([]func(*http.Request){withBody(body), header("Content-Type", "application/json")}, edit)
	}
	got := call(t, server, method, "/api/v1"+path, edit...)
	c, err := theContract()
	if err != nil {
		t.Fatal(err)
	}
	c.check(t, got, body)
	return got
}

// Every route of the table is documented, and nothing else is.
func TestOpenAPIHasEveryRoute(t *testing.T) {
	t.Parallel()
	handler, err := ui.NewHandler(ui.Options{Source: always(cluster(1))})
	if err != nil {
		t.Fatal(err)
	}
	c, err := theContract()
	if err != nil {
		t.Fatal(err)
	}
	routes, documented := handler.Patterns(), []string{}
	for _, op := range c.operations {
		documented = append(documented, op.method+" "+op.path)
		var inPath []string
		for name, where := range op.parameters {
			if where == "path" {
				inPath = append(inPath, "{"+name+"}")
			}
		}
		if len(inPath) != strings.Count(op.path, "{") || len(inPath) == 1 && !strings.Contains(op.path, inPath[0]) {
			t.Errorf("%s has the parameters %v in its path", op.path, inPath)
		}
		for status, r := range op.responses {
			for kind, has := range r.kinds {
				if _, err := c.schema(r.pointer + "/content/" + escaped(kind) + "/schema"); has && err != nil {
					t.Errorf("%s, status %s: %v", op.id, status, err)
				}
			}
		}
	}
	slices.Sort(routes)
	slices.Sort(documented)
	for _, route := range routes {
		if !slices.Contains(documented, route) {
			t.Errorf("%s is not in openapi.yaml", route)
		}
	}
	for _, one := range documented {
		if !slices.Contains(routes, one) {
			t.Errorf("%s is in openapi.yaml alone", one)
		}
	}
	served := call(t, serveHandler(t, handler), http.MethodGet, "/api/v1/openapi.yaml")
	file, err := os.ReadFile("api/openapi.yaml")
	if err != nil || served.text != string(file) {
		t.Errorf("what is served is not openapi.yaml (%v): %.100s", err, served.text)
	}
}
