package rewrite_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/uuid"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/postrider/postrider/delivery/rewrite"
	"github.com/postrider/postrider/delivery/shape"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func pointers(t testing.TB, texts ...string) []rewrite.JSONPointer {
	t.Helper()
	var list []rewrite.JSONPointer
	for _, text := range texts {
		p, err := rewrite.ParsePointer(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	return list
}

func TestRedactions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in, pointers, want string
	}{
		{`{"a":1,"b":2}`, "/a", `{"b":2}`},
		{`{"a":1,"b":2}`, "/b", `{"a":1}`},
		{`{"a":1}`, "/a", `{}`},
		{`{"a":1,"b":2,"c":3}`, "/a /c", `{"b":2}`},
		{`{"a":{"b":{"c":1},"d":2}}`, "/a/b", `{"a":{"d":2}}`},
		{`{"a":{"b":{"c":1},"d":2}}`, "/a/b/c", `{"a":{"b":{},"d":2}}`},
		{`{"a":{"b":1},"c":2}`, "/a /a/b", `{"c":2}`},
		{`{"a":1,"b":2,"a":3}`, "/a", `{"b":2}`},
		{`{"\u0061":1,"b":2}`, "/a", `{"b":2}`},
		{`{"größe":1,"\ud83d\ude00":2}`, "/größe /😀", `{}`},
		{`{"a/b":1,"m~n":2,"":3}`, "/a~1b /m~0n /", `{}`},
		{`{"~1":1,"/":2}`, "/~01", `{"/":2}`},
		{`[1,2,3]`, "/1", `[1,null,3]`},
		{`[1,2,3]`, "/01", `[1,2,3]`},
		{`{"l":[{"p":1,"n":2},{"p":3},5,[{"p":6}]]}`, "/l/*/p", `{"l":[{"n":2},{},5,[{"p":6}]]}`},
		{`{"*":1,"a":2}`, "/*", `{"a":2}`},
		{" {\n \"a\" : 1.0e3 ,\n \"b\" : [ ] , \"c\" : { } }\n", "/a", " {\n \"b\" : [ ] , \"c\" : { } }\n"},
		{`{"a":"},{\"a\":","b":"\\","c":1}`, "/b /d /c/e", `{"a":"},{\"a\":","c":1}`},
		{`{"A":1}`, "/a", `{"A":1}`},
		{`"text"`, "/a", `"text"`},
		{`12345678901234567890.10`, "/a", `12345678901234567890.10`},
		{``, "/a", ``},
	} {
		list := pointers(t, strings.Fields(c.pointers)...)
		payload := []byte(c.in)
		got, err := rewrite.Redact(payload, list)
		if err != nil || string(got) != c.want {
			t.Errorf("%s without %s: %s, %v; want %s", c.in, c.pointers, got, err, c.want)
		}
		if string(payload) != c.in {
			t.Errorf("the payload was changed: %s", payload)
		}
	}
}

func TestPointersAndRulesAreChecked(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "a", "/a~", "/a~2", "=", "a=b"} {
		if _, err := rewrite.ParseRedaction(text); !errors.Is(err, rewrite.ErrRule) {
			t.Errorf("redaction %q: %v", text, err)
		}
	}
	for text, want := range map[string]rewrite.Redaction{
		"/a/b": {Pointer: rewrite.JSONPointer{"a", "b"}}, "order.paid=/a": {Type: "order.paid", Pointer: rewrite.JSONPointer{"a"}},
		"/a=/b": {Pointer: rewrite.JSONPointer{"a=", "b"}},
	} {
		if got, err := rewrite.ParseRedaction(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("redaction %q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "a", "=b", "a=", "a=b=c"} {
		if _, _, err := rewrite.ParseRename(text); !errors.Is(err, rewrite.ErrRule) {
			t.Errorf("rename %q: %v", text, err)
		}
	}
	for name, r := range map[string]rewrite.Rules{
		"line break": {Renames: map[string]string{"a": "b\r\nNats-Rollup: all"}},
		"long":       {Renames: map[string]string{"a": strings.Repeat("x", 1025)}},
	} {
		if err := r.Validate(); !errors.Is(err, rewrite.ErrRule) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRulesByType(t *testing.T) {
	t.Parallel()
	rules := rewrite.Rules{
		Redactions: []rewrite.Redaction{
			{Pointer: pointers(t, "/secret")[0]}, {Type: "order.paid", Pointer: pointers(t, "/card")[0]},
		},
		Renames: map[string]string{"order.paid": "order.settled", "note": "order.paid"},
	}
	if err := rules.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ kind, payload, wantKind, want string }{
		{"order.paid", `{"card":1,"secret":2,"n":3}`, "order.settled", `{"n":3}`},
		{"order.packed", `{"card":1,"secret":2,"n":3}`, "order.packed", `{"card":1,"n":3}`},
		{"note", `{"card":1}`, "order.paid", `{"card":1}`}, // as it is stored
	} {
		d := shape.Draft{ID: uuid.New(), Type: c.kind, Topic: "t", Payload: []byte(c.payload)}
		got, err := shape.TryTransforms(t.Context(), d, 0, rules.Transform())
		if err != nil || got.Type != c.wantKind || string(got.Payload) != c.want {
			t.Errorf("%s %s: %s %s, %v", c.kind, c.payload, got.Type, got.Payload, err)
		}
	}
	for _, payload := range []string{"not JSON", `{"secret":1`, "\xef\xbb\xbf{}", `{"a":1}{"secret":2}`} {
		d := shape.Draft{Type: "x", Topic: "t", Payload: []byte(payload)}
		if got, err := shape.TryTransforms(t.Context(), d, 0, rules.Transform()); !errors.Is(err, shape.ErrPermanent) || !errors.Is(err, rewrite.ErrNotJSON) {
			t.Errorf("%q was let through as %q: %v", payload, got.Payload, err)
		}
	}
}

// Whatever the document, the result is the one that decoding, deleting and encoding gives, and without a match it is the document.
func TestRedactingIsDeletingFromTheTree(t *testing.T) {
	t.Parallel()
	names := rapid.SampledFrom([]string{"a", "b", "c", `q"`, "ü", "0"})
	rapid.Check(t, func(r *rapid.T) {
		tree := document(r, names, 4)
		in, err := json.Marshal(tree)
		if err != nil {
			r.Fatal(err)
		}
		if rapid.Bool().Draw(r, "indent") {
			var b bytes.Buffer
			_ = json.Indent(&b, in, " ", "\t")
			in = b.Bytes()
		}
		path := rapid.SliceOfN(names, 1, 3).Draw(r, "path")
		got, err := rewrite.Redact(in, []rewrite.JSONPointer{path})
		if err != nil {
			r.Fatal(err)
		}
		want, changed := remove(tree, path)
		var decoded any
		if err := json.Unmarshal(got, &decoded); err != nil {
			r.Fatalf("%s became %s: %v", in, got, err)
		}
		if !reflect.DeepEqual(decoded, want) || !changed && !bytes.Equal(in, got) {
			r.Fatalf("%s without %v is %s", in, path, got)
		}
	})
}

func document(r *rapid.T, names *rapid.Generator[string], depth int) any {
	switch kind := rapid.IntRange(0, 5).Draw(r, "kind"); {
	case kind == 0 || depth == 0:
		return rapid.SampledFrom([]any{nil, true, 1.5, -2e30, "x,}]\"\\", ""}).Draw(r, "leaf")
	case kind < 4:
		m := map[string]any{}
		for range rapid.IntRange(0, 4).Draw(r, "members") {
			m[names.Draw(r, "name")] = document(r, names, depth-1)
		}
		return m
	default:
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(r, "elements") {
			list = append(list, document(r, names, depth-1))
		}
		return list
	}
}

func remove(tree any, path []string) (without any, changed bool) {
	switch v := tree.(type) {
	case map[string]any:
		child, found := v[path[0]]
		if !found {
			return v, false
		}
		if len(path) == 1 {
			delete(v, path[0])
			return v, true
		}
		v[path[0]], changed = remove(child, path[1:])
	case []any:
		if path[0] != "0" || len(v) == 0 {
			return v, false
		}
		if len(path) == 1 {
			v[0] = nil
			return v, true
		}
		v[0], changed = remove(v[0], path[1:])
		return v, changed
	}
	return tree, changed
}

// A payload of many short values grows by no more than a null for each, and an array that no pointer leads into costs a look.
func TestManyElements(t *testing.T) { //nolint:paralleltest // it counts allocations
	zeros := []byte("[0" + strings.Repeat(",0", 1<<20) + "]")
	if got, err := rewrite.Redact(zeros, pointers(t, "/*")); err != nil || len(got) != len("[null")+5<<20+1 {
		t.Errorf("%d bytes became %d: %v", len(zeros), len(got), err)
	}
	allocated := testing.AllocsPerRun(1, func() {
		if got, err := rewrite.Redact(zeros, pointers(t, "/a", "/b/c")); err != nil || !bytes.Equal(got, zeros) {
			t.Error("the document was changed", err)
		}
	})
	if allocated > 100 {
		t.Errorf("%.0f allocations", allocated)
	}
}

func FuzzRedact(f *testing.F) {
	for _, seed := range []string{`{"a":{"b":[1,{"a":"\u0061"}]}}`, `[[],{},""]`, ` { "a" : 1 , "a" : 2 } `, `{"a":1`, `"\\"`} {
		f.Add([]byte(seed))
	}
	list := pointers(f, "/a", "/b/a", "/*/a", "/0")
	f.Fuzz(func(t *testing.T, payload []byte) {
		got, err := rewrite.Redact(payload, list)
		if err == nil && len(payload) > 0 && !json.Valid(got) {
			t.Fatalf("%q became %q", payload, got)
		}
	})
}
