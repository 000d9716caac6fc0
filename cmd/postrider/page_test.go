package main

import (
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/postrider/postrider/ui"
)

// configurationPage is where people look flags up.
const configurationPage = "../../docs/configuration.md"

var flagName = regexp.MustCompile("`--([a-z0-9-]+)[^`]*`")

// model is the command line as kong has it.
func model(t *testing.T) *kong.Application {
	t.Helper()
	parser, err := kong.New(&cli{}, kong.Name("postrider"), kong.DefaultEnvars("POSTRIDER"), kong.Configuration(loadFile), flagGroups, kong.Writers(io.Discard, io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	return parser.Model
}

// flagsOf are all flags that a command takes, by their names.
func flagsOf(node *kong.Node) map[string]*kong.Flag {
	flags := map[string]*kong.Flag{}
	for ; node != nil; node = node.Parent {
		for _, f := range node.Flags {
			if f.Name != "help" {
				flags[f.Name] = f
			}
		}
	}
	return flags
}

// rows are the cells of a section's tables.
func rows(t *testing.T, page, section string) [][]string {
	t.Helper()
	_, text, found := strings.Cut(page, "\n## "+section+"\n")
	if !found {
		t.Fatalf("%s has no section %q", configurationPage, section)
	}
	text, _, _ = strings.Cut(strings.ReplaceAll(text, "\n### ", "\n## "), "\n## ")
	var list [][]string
	for line := range strings.Lines(strings.ReplaceAll(text, `\|`, "¦")) {
		if cells := strings.Split(line, "|"); len(cells) > 3 && strings.Contains(cells[1], "`") {
			list = append(list, cells[1:len(cells)-1])
		}
	}
	return list
}

// plainDefault is a default as both write it: without quotes, durations in full, and nothing for what is off.
func plainDefault(text string) string {
	text = strings.Trim(strings.TrimSpace(text), "`")
	if d, err := time.ParseDuration(text); err == nil {
		return d.String()
	}
	return text
}

// mostSettings is how many settings a worker may have; aim 45. What only chooses a mode or an output is none.
const mostSettings = 46

func TestAWorkerHasFewSettings(t *testing.T) {
	t.Parallel()
	app := model(t)
	flags := flagsOf(app.Children[slices.IndexFunc(app.Children, func(n *kong.Node) bool { return n.Name == "run" })])
	for _, mode := range []string{"config", "once", "no-leasing", "shadow", "json", "silent", "window", "wide", "version"} {
		delete(flags, mode)
	}
	if len(flags) > mostSettings {
		t.Errorf("run has %d settings; the limit is %d", len(flags), mostSettings)
	}
}

// The page's tables have every flag of run, dev and the monitor, with its default, and no other.
func TestTheConfigurationPageHasEveryFlag(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(configurationPage)
	if err != nil {
		t.Fatal(err)
	}
	page, app := string(text), model(t)
	command := func(name string) map[string]*kong.Flag {
		return flagsOf(app.Children[slices.IndexFunc(app.Children, func(n *kong.Node) bool { return n.Name == name })])
	}
	for name, sections := range map[string][]string{
		"run": {"run", "run, dev, monitor: the monitor"}, "dev": {"dev"}, "monitor": {"run, dev, monitor: the monitor"},
	} {
		flags, named := command(name), map[string]bool{}
		for _, section := range sections {
			for _, cells := range rows(t, page, section) {
				found := flagName.FindAllStringSubmatch(cells[0], -1)
				defaults := strings.Split(cells[1], ",")
				for i, m := range found {
					flag := flags[m[1]]
					if named[m[1]] = true; flag == nil {
						t.Errorf("%s, %s: %s has no flag --%s", configurationPage, section, name, m[1])
						continue
					}
					told := ""
					if len(defaults) == len(found) {
						told = plainDefault(defaults[i])
					}
					want := plainDefault(flag.Default)
					if m[1] == "http-addr" {
						want = defaultHTTPAddr // decided when it listens
					}
					if told != want && !strings.HasPrefix(told, "100 ") {
						t.Errorf("%s, %s: --%s has the default %q, in the page %q", configurationPage, section, m[1], want, told)
					}
				}
			}
		}
		for flag := range flags {
			if name == "run" && !named[flag] {
				t.Errorf("%s lacks --%s", configurationPage, flag)
			}
		}
	}
}

// The users file that the page shows is one.
func TestTheConfigurationPageShowsAUsersFile(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(configurationPage)
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?s)```\n(# ROLE.*?)```").FindStringSubmatch(string(page))
	if shown == nil {
		t.Fatalf("%s shows no users file", configurationPage)
	}
	auth, err := ui.ReadAuth(writeFile(t, shown[1]))
	if err != nil || len(auth.Users) != 1 || len(auth.Tokens) != 1 || auth.Users[0].Access != ui.AccessOperate ||
		auth.Tokens[0].Access != ui.AccessReadOnly || auth.ProxyHeader == "" {
		t.Errorf("read %+v: %v", auth, err)
	}
}

var commandName = regexp.MustCompile("`([a-z ]+?)(?: [A-Z\\[][^`]*)?`")

// The page names every command, all of their flags, and none that they do not have.
func TestTheConfigurationPageHasEveryCommand(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(configurationPage)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	anywhere := map[string]bool{}
	for _, m := range flagName.FindAllStringSubmatch(page, -1) {
		anywhere[m[1]] = true
	}
	rowOf, inRow := map[string]int{"run": -1, "dev": -1}, map[int]map[string]bool{} // run and dev have sections of their own
	for i, cells := range rows(t, page, "Other commands") {
		group := ""
		inRow[i] = map[string]bool{}
		for _, m := range flagName.FindAllStringSubmatch(cells[1], -1) {
			inRow[i][m[1]] = true
		}
		for k, m := range commandName.FindAllStringSubmatch(cells[0], -1) {
			name := m[1]
			if before, _, grouped := strings.Cut(name, " "); k == 0 && grouped {
				group = before + " "
			} else if !grouped {
				name = group + name
			}
			rowOf[name] = i
		}
	}
	there := map[string]bool{}
	for _, leaf := range model(t).Leaves(true) {
		name := strings.Join(strings.Fields(leaf.Path()), " ")
		if leaf.Parent.DefaultCmd == leaf {
			name = strings.Join(strings.Fields(leaf.Parent.Path()), " ")
		}
		row, told := rowOf[name]
		if there[name] = true; !told {
			t.Errorf("%s lacks the command %s", configurationPage, name)
		}
		for flag := range flagsOf(leaf) {
			delete(inRow[row], flag)
			if !anywhere[flag] {
				t.Errorf("%s lacks --%s of %s", configurationPage, flag, name)
			}
		}
	}
	for name, row := range rowOf {
		if !there[name] {
			t.Errorf("%s has the command %q, which there is not", configurationPage, name)
		}
		for flag := range inRow[row] {
			t.Errorf("%s gives %s the flag --%s, which it does not have", configurationPage, name, flag)
		}
	}
}
