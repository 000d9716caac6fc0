package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// What is exported changes nothing where it came from, and makes the same elsewhere.
func TestWhatIsExportedIsAppliedAgain(t *testing.T) {
	t.Parallel()
	for kind, makes := range map[string][][]string{
		"types": {
			{"types", "set", "order.paid", "--check", "--description=yes", "--json-schema=" + writeFile(t, `{"properties": {"n": {"maximum": 100000000000000000000.10}, "no": {"const": "2026-01-01"}}}`)},
			{"types", "set", "on", "--json-schema=" + writeFile(t, `{"format": "0x10", "title": null, "default": [true, "true", 1e3, "1_0", "~", "multi\nline: x"]}`)},
		},
		"capture": {
			{"capture", "--table=orders", "--exclude=secret", "--operations=insert", "--topic=shop", "--type=o.{operation}", "--old"},
			{"capture", `--table=public."odd.name"`, "--columns=no"},
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			run := func(want int, url string, args ...string) string {
				t.Helper()
				code, out, complaint := call(t, append(args, "--database-url="+url)...)
				if code != want {
					t.Fatalf("postrider %s ended with %d: %s %s", strings.Join(args, " "), code, out, complaint)
				}
				return out
			}
			there, elsewhere := pgtest.Migrated(t, 4), pgtest.Migrated(t, 4)
			for _, url := range []string{there, elsewhere} {
				if _, err := pgtest.Pool(t, url).Exec(t.Context(), `CREATE TABLE orders (id int PRIMARY KEY, secret text); CREATE TABLE "odd.name" (id int PRIMARY KEY, no text)`); err != nil {
					t.Fatal(err)
				}
			}
			for _, one := range makes {
				run(exitOK, there, one...)
			}
			text := run(exitOK, there, kind, "export")
			file := writeFile(t, text)
			if out := run(exitOK, there, kind, "apply", file, "--dry-run", "--prune"); out != "nothing to change\n" {
				t.Errorf("where it came from:\n%s%s", text, out)
			}
			if out := run(exitFailed, elsewhere, kind, "apply", file, "--dry-run"); strings.Count(out, "create ") != 2 {
				t.Errorf("elsewhere: %s", out)
			}
			run(exitOK, elsewhere, kind, "apply", file, "--yes")
			if again := run(exitOK, elsewhere, kind, "export"); again != text {
				t.Errorf("elsewhere: %s, want %s", again, text)
			}
		})
	}
}

// A schema in YAML means the same as its JSON: numbers keep their digits, dates and keys are texts.
func TestASchemaInYAMLIsAsItIsWritten(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]string{
		`{maximum: 123456789012345678901234567890, minimum: -0.12345678901234567890, const: 1.0}`:      `{"const":1.0,"maximum":123456789012345678901234567890,"minimum":-0.12345678901234567890}`,
		`{enum: [2026-01-01, 2026-01-01T00:00:00Z, 1e3, 1e400, 0x10, yes, ~, true, "1", '2', "a\"b"]}`: `{"enum":["2026-01-01","2026-01-01T00:00:00Z",1e3,1e400,16,"yes",null,true,"1","2","a\"b"]}`,
		`{properties: {1: {minimum: 1}, true: {}, 2026-01-01: {}, 1.50: {}, ~: {}}}`:                   `{"properties":{"1":{"minimum":1},"1.50":{},"2026-01-01":{},"true":{},"~":{}}}`,
		`{$defs: {a: &a {maximum: 10000000000000000000001}, b: *a, c: {<<: *a, minimum: 1}}}`:          `{"$defs":{"a":{"maximum":10000000000000000000001},"b":{"maximum":10000000000000000000001},"c":{"maximum":10000000000000000000001,"minimum":1}}}`,
		`'{"maximum": 1.50}'`: `{"maximum": 1.50}`,
	} {
		var file typesFile
		if err := readEntries(writeFile(t, `types: {t: {json_schema: `+written+`}}`), &file); err != nil || string(file.Types["t"].JSONSchema) != want {
			t.Errorf("%s is read as %s, want %s: %v", written, file.Types["t"].JSONSchema, want, err)
		}
	}
}

// Nothing is dropped, ended or made public unasked, and who does not confirm it reads what it would be.
func TestApplyDropsNothingUnasked(t *testing.T) {
	t.Parallel()
	url := pgtest.Migrated(t, 4)
	pool := pgtest.Pool(t, url)
	if _, err := pool.Exec(t.Context(), `CREATE TABLE orders (id int PRIMARY KEY, secret text); CREATE TABLE lines (id int PRIMARY KEY)`); err != nil {
		t.Fatal(err)
	}
	apply := func(want int, kind, file string, more ...string) []difference {
		t.Helper()
		code, out, stderr := call(t, append([]string{kind, "apply", writeFile(t, file), "--json", "--database-url=" + url}, more...)...)
		var body struct {
			Applied bool
			Changes []difference
		}
		if err := json.Unmarshal([]byte(out), &body); err != nil || code != want || body.Applied != (code == exitOK) {
			t.Fatalf("%s ended with %d: %s %s", file, code, out, stderr)
		}
		if code == exitRefused && !strings.Contains(stderr, "--yes") {
			t.Errorf("refused: %s", stderr)
		}
		return body.Changes
	}
	told := func(list []difference, want string) {
		t.Helper()
		var all []string
		for _, d := range list {
			text := d.Action + " " + d.Name
			for _, one := range d.Settings {
				text += " " + one.Setting + "=" + one.After
			}
			all = append(all, text)
		}
		if got := strings.Join(all, "; "); got != want {
			t.Errorf("it tells %s, want %s", got, want)
		}
	}
	count := func(sql string, want int) {
		t.Helper()
		var n int
		if err := pool.QueryRow(t.Context(), sql).Scan(&n); err != nil || n != want {
			t.Errorf("%s: %d, %v, want %d", sql, n, err, want)
		}
	}
	const types, triggers = `SELECT count(*) FILTER (WHERE checked) FROM outbox_types`, `SELECT count(*) FROM pg_trigger WHERE tgname = '00_postrider_capture'`
	apply(exitOK, "types", "types: {a: {checked: true, json_schema: {}}, b: {checked: true, json_schema: {}}}")
	told(apply(exitOK, "types", "types: {a: {checked: true, json_schema: {}, description: one}}"), "change a description=one; keep b")
	count(types, 2)
	told(apply(exitRefused, "types", "types: {a: {json_schema: {}}}"), "change a checked=false description=; keep b")
	told(apply(exitRefused, "types", "types: {a: {checked: true, json_schema: {type: object}}}", "--prune"), `change a description= json_schema={"type": "object"}; drop b`)
	count(types, 2)
	told(apply(exitFailed, "types", "types: {}", "--prune", "--yes", "--dry-run"), "drop a; drop b")
	count(types, 2)
	apply(exitOK, "types", "types: {a: {json_schema: {}}}", "--prune", "--yes", "--actor=me")
	count(types, 0)
	count(`SELECT count(*) FROM outbox_audit WHERE actor = 'me'`, 2)

	told(apply(exitRefused, "capture", "captures: {orders: {exclude: [secret]}}"), "create public.orders")
	count(triggers, 0)
	apply(exitOK, "capture", "captures: {orders: {exclude: [secret]}, lines: }", "--yes")
	told(apply(exitRefused, "capture", "captures: {orders: {}}"), "change public.orders exclude=none; keep public.lines")
	told(apply(exitOK, "capture", "captures: {orders: {exclude: [secret]}}", "--yes"), "keep public.lines")
	told(apply(exitRefused, "capture", "captures: {orders: {exclude: [secret]}}", "--prune"), "drop public.lines")
	count(triggers, 2)
	apply(exitOK, "capture", "captures: {orders: {exclude: [secret]}}", "--prune", "--yes")
	count(triggers, 1)
}

// A file that is wrong is refused with the line, and all of it.
func TestWrongFilesAreNotApplied(t *testing.T) {
	t.Parallel()
	url := pgtest.Migrated(t, 4)
	if _, err := pgtest.Pool(t, url).Exec(t.Context(), `CREATE TABLE orders (id int PRIMARY KEY)`); err != nil {
		t.Fatal(err)
	}
	good := "types:\n  good: {json_schema: {}}\n"
	for _, c := range []struct{ kind, text, says string }{
		{"types", "", "must have types:"},
		{"types", "- a", "line 1: cannot unmarshal"},
		{"types", "types: {}\n---\ntypes: {}", "one document"},
		{"types", "types:", "must have types:"},
		{"types", good + "captures: {}", "line 3: field captures not found"},
		{"types", good + "  a:\n    schema: {}", "line 4: field schema not found"},
		{"types", good + "  good: {}", `line 3: mapping key "good" already defined at line 2`},
		{"types", good + "  a: {checked: maybe}", "line 3: cannot unmarshal `maybe`"},
		{"types", good + "  a: {description: [x]}", "line 3: cannot unmarshal"},
		{"types", good + "  a: {json_schema: {maximum: .inf}}", "unsupported value: +Inf"},
		{"types", good + "  a: {checked: true}", "FILE types.a: json-schema is needed"},
		{"types", good + "  a: {json_schema: text}", "FILE types.a: json-schema must be one JSON object"},
		{"types", good + "  a: {checked: true, json_schema: {format: uuid}}", "FILE types.a: json-schema /format is not checked here"},
		{"types", "types: {a: [}", "did not find"},
		{"capture", "captures:\n  orders: {}\n  public.orders: {}", "captures.public.orders: public.orders is there twice"},
		{"capture", "captures:\n  orders: {}\n  nowhere: {}", "captures.nowhere: --table: there is no nowhere"},
		{"capture", "captures:\n  orders:\n    key: [x]", "captures.orders: --key: public.orders has no column x"},
		{"capture", "captures:\n  orders: {old: 1}", "line 2: cannot unmarshal"},
		{"capture", "captures:\n  orders: {publication: p}", "line 2: field publication not found"},
	} {
		file := writeFile(t, c.text)
		complaint{[]string{c.kind, "apply", file, "--yes", "--prune", "--database-url=" + url}, exitRefused, []string{c.says}}.check(t)
	}
	complaint{[]string{"types", "apply", "nowhere.yaml", "--database-url=" + url}, exitRefused, []string{"FILE", "nowhere.yaml"}}.check(t)
	for _, kind := range []string{"types", "capture"} {
		if _, out, _ := call(t, kind, "list", "--json", "--database-url="+url); out != "[]\n" {
			t.Errorf("%s has %s", kind, out)
		}
	}
}
