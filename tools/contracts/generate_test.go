package contracts_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
)

// generator makes schemas and documents from few names and values, so that they meet often.
type generator struct {
	*rand.Rand
	defs []string
}

type object = map[string]any

var (
	names   = []string{"a", "b", "c", "~/", "é", "$ref", "", "type", "%", `"\`}
	strs    = []string{"", "a", "ab", "abc", "aab", "A1", "12", "é", "😀", "😀é", "a\nb", "b\n", "x.y", "-", "_", "c c", "null", "ß"}
	numbers = []string{"0", "1", "-1", "1.0", "1.5", "2", "2.50", "10", "1e1", "-0.5", "-0", "0.1", "1e-7", "100", "123456789012345678901234567890", "123456789012345678901234567890.5", "1E+2"}
	kinds   = []string{"null", "boolean", "object", "array", "number", "string", "integer"}
	atoms   = []string{"a", "b", "c", "é", "😀", "x", "1", "-", "_", `\.`, "[a-c]", "[^a]", `[\-a]`, `[^\d]`, `[\w.]`, "[é-ü]", `\d`, `\w`, `\W`, `\D`, `\n`, ".", "(ab|c)", "(?:b|x)", "(a|)", `\$`, `\/`}
	repeats = []string{"", "", "", "*", "+", "?", "{2}", "{1,2}", "{0,}", "*?", "+?", "{1,3}?"}
)

func pick[T any](g generator, from []T) T { return from[g.IntN(len(from))] }

func (g generator) chance(percent int) bool { return g.IntN(100) < percent }

func (g generator) number() json.Number { return json.Number(pick(g, numbers)) }

func (g generator) pattern() string {
	var b strings.Builder
	if g.chance(40) {
		b.WriteString("^")
	}
	for range 1 + g.IntN(3) {
		b.WriteString(pick(g, atoms) + pick(g, repeats))
	}
	if g.chance(20) {
		b.WriteString("|" + pick(g, atoms))
	}
	if g.chance(40) {
		b.WriteString("$")
	}
	return b.String()
}

// atRoot is the depth of a whole schema.
const atRoot = 3

// root is a schema with definitions, some of which need themselves.
func (g generator) root() (rules, defs object) {
	defs = object{}
	for _, name := range g.defs {
		one := g.rules(2)
		delete(one, "$ref") // it might make a circle
		defs[name] = one
	}
	rules = g.rules(atRoot)
	rules["$defs"] = defs
	return rules, defs
}

func (g generator) schema(depth int) any {
	if g.chance(8) {
		return g.chance(70)
	}
	return g.rules(depth)
}

// rules is an object of some keywords.
func (g generator) rules(depth int) object {
	s := object{}
	if g.chance(60) {
		s["type"] = pick(g, kinds)
		if g.chance(30) {
			s["type"] = slices.Compact(slices.Sorted(slices.Values([]string{pick(g, kinds), pick(g, kinds), pick(g, kinds)})))
		}
	}
	if g.chance(8) {
		s["enum"] = []any{g.value(1), g.value(1), g.value(2)}
	}
	if g.chance(5) {
		s["const"] = g.value(2)
	}
	for _, keyword := range []string{"minLength", "maxLength", "minItems", "maxItems"} {
		if g.chance(15) {
			s[keyword] = json.Number(pick(g, []string{"0", "1", "2", "3", "2.0"}))
		}
	}
	for _, keyword := range []string{"minimum", "maximum"} {
		if g.chance(12) {
			s[keyword] = g.number()
		}
	}
	if g.chance(15) {
		s["pattern"] = g.pattern()
	}
	if g.chance(25) {
		s["required"] = slices.Compact(slices.Sorted(slices.Values([]string{pick(g, names[:4]), pick(g, names)})))
	}
	if g.chance(10) && len(g.defs) > 0 {
		s["$ref"] = "#/$defs/" + pick(g, g.defs)
		if depth < atRoot { // nothing that goes deeper may stand beside it there
			return s
		}
	}
	if depth > 0 {
		g.deeper(s, depth-1)
	}
	return s
}

func (g generator) deeper(s object, depth int) {
	if g.chance(60) {
		properties := object{}
		for range 1 + g.IntN(4) {
			properties[pick(g, names)] = g.schema(depth)
		}
		s["properties"] = properties
	}
	if g.chance(20) {
		s["additionalProperties"] = g.chance(30)
		if g.chance(40) {
			s["additionalProperties"] = g.schema(depth)
		}
	}
	if g.chance(40) {
		s["items"] = g.schema(depth)
	}
}

// value is any document.
func (g generator) value(depth int) any { return g.of(pick(g, kinds), depth) }

func (g generator) of(kind string, depth int) any {
	switch kind {
	case "null":
		return nil
	case "boolean":
		return g.chance(50)
	case "number", "integer":
		return g.number()
	case "string":
		return pick(g, strs)
	case "array":
		list := []any{}
		for range g.IntN(4) {
			if depth > 0 {
				list = append(list, g.value(depth-1))
			}
		}
		return list
	}
	fields := object{}
	for range g.IntN(5) {
		if depth > 0 {
			fields[pick(g, names)] = g.value(depth - 1)
		}
	}
	return fields
}

// near is a document that nearly fits.
func (g generator) near(s any, defs object, depth int) any {
	rules, is := s.(object)
	if !is || depth == 0 || g.chance(6) {
		return g.value(min(depth, 2))
	}
	if ref, is := rules["$ref"].(string); is && g.chance(50) {
		return g.near(defs[strings.TrimPrefix(ref, "#/$defs/")], defs, depth-1)
	}
	if value, is := rules["const"]; is && g.chance(80) {
		return value
	}
	if values, is := rules["enum"].([]any); is && g.chance(80) {
		return pick(g, values)
	}
	kind := pick(g, kinds)
	switch types := rules["type"].(type) {
	case string:
		kind = types
	case []string:
		kind = pick(g, types)
	default:
		if rules["properties"] != nil {
			kind = "object"
		} else if rules["items"] != nil {
			kind = "array"
		}
	}
	switch kind {
	case "array":
		list := []any{}
		for range g.IntN(5) {
			list = append(list, g.near(rules["items"], defs, depth-1))
		}
		return list
	case "object":
		return g.nearObject(rules, defs, depth)
	}
	return g.of(kind, depth)
}

func (g generator) nearObject(rules, defs object, depth int) object {
	fields := object{}
	properties, _ := rules["properties"].(object)
	for _, name := range slices.Sorted(keys(properties)) {
		if g.chance(70) {
			fields[name] = g.near(properties[name], defs, depth-1)
		}
	}
	required, _ := rules["required"].([]string)
	for _, name := range required {
		if _, there := fields[name]; !there && g.chance(85) {
			fields[name] = g.near(properties[name], defs, depth-1)
		}
	}
	if g.chance(25) {
		fields[pick(g, names)] = g.near(rules["additionalProperties"], defs, depth-1)
	}
	return fields
}

func keys(m object) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for name := range m {
			if !yield(name) {
				return
			}
		}
	}
}
