package deployment_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	siteAddress = "https://docs.example.net/postrider/"
	siteSource  = "https://github.com/postrider/postrider/"
)

var (
	siteID        = regexp.MustCompile(` id="?([^" >]+)`)
	siteReference = regexp.MustCompile(` (?:href|src)="([^"]+)"`)
	sitePage      = regexp.MustCompile(regexp.QuoteMeta(siteAddress) + `[^\s)>]*`)
)

// site is what Hugo made, by path below the site's address: a page's is its folder's.
type site struct {
	content map[string]string
	anchors map[string]map[string]bool
}

// buildSite has Hugo build the documentation.
func buildSite(t *testing.T) site {
	t.Helper()
	hugo, folder := os.Getenv("POSTRIDER_HUGO"), t.TempDir() // to build it takes minutes: not in every run
	if hugo == "" {
		t.Skip("hugo is missing: make site/check provides it")
	}
	if _, stderr, err := execute(t, filepath.Join(root, "docs", "site"), hugo, "--destination", folder, "--cacheDir", t.TempDir(), "--noBuildLock",
		"--panicOnWarning", "--quiet", "--baseURL", siteAddress); err != nil {
		t.Fatalf("hugo: %v\n%s", err, stderr)
	}
	s := site{map[string]string{}, map[string]map[string]bool{}}
	files := os.DirFS(folder)
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		name = strings.TrimPrefix(strings.TrimSuffix("/"+name, "index.html"), "/")
		s.content[name], s.anchors[name] = string(text), map[string]bool{"": true}
		for _, id := range siteID.FindAllStringSubmatch(string(text), -1) {
			s.anchors[name][id[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// check follows a link that stands on a page.
func (s site) check(t *testing.T, page, link string) {
	t.Helper()
	target, anchor, _ := strings.Cut(link, "#")
	if file, ours := strings.CutPrefix(target, siteSource); ours {
		_, file, _ = strings.Cut(strings.TrimPrefix(strings.TrimPrefix(file, "blob/"), "tree/"), "/")
		if _, err := os.Stat(filepath.Join(root, file)); err != nil {
			t.Errorf("%q: %s is not in the repository: %v", page, link, err)
		}
		return
	}
	below := strings.TrimPrefix(siteAddress, "https://docs.example.net")
	target, inside := strings.CutPrefix(strings.TrimPrefix(target, "https://docs.example.net"), below)
	switch {
	case link[0] == '#':
		target = page
	case strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:"):
		return
	case !inside:
		t.Errorf("%q: %s is outside of the site", page, link)
		return
	}
	if !s.anchors[target][anchor] {
		t.Errorf("%q: nothing is at %s", page, link)
	}
}

// Each page of docs/ is on the site, and each link of the site leads to a page, a heading, or a file of the repository; so do what
// search finds and what llms.txt lists.
func TestTheSiteHasEveryPageAndItsLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	s := buildSite(t)
	links := 0
	for page, html := range s.content {
		if page != "" && !strings.HasSuffix(page, "/") {
			continue
		}
		for _, l := range siteReference.FindAllStringSubmatch(html, -1) {
			links++
			s.check(t, page, l[1])
		}
	}
	if links < 1000 {
		t.Errorf("there are only %d links", links)
	}

	for _, pattern := range []string{"docs/*.md", "docs/*/*.md"} {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			name = strings.TrimPrefix(filepath.ToSlash(name), root+"/")
			page := strings.TrimSuffix(name, ".md") + "/"
			if path.Base(name) == "README.md" {
				page = path.Dir(name) + "/"
			}
			title, _, _ := strings.Cut(read(t, name), "\n")
			if s.content[page] == "" || !strings.Contains(s.content["llms-full.txt"], "\n"+title+"\n") {
				t.Errorf("%s is not on the site, or not in llms-full.txt", name)
			}
		}
	}

	var sections []struct{ Page, URL, Text string }
	if err := json.Unmarshal([]byte(s.content["search.json"]), &sections); err != nil || len(sections) < 100 {
		t.Errorf("search.json has %d sections: %v", len(sections), err)
	}
	for _, section := range sections {
		if s.check(t, "search.json", siteAddress+section.URL); section.Page == "" || section.Text == "" {
			t.Errorf("search.json: %+v", section)
		}
	}
	listed := sitePage.FindAllString(s.content["llms.txt"], -1)
	for _, l := range listed {
		s.check(t, "llms.txt", l)
	}
	if len(listed) < 20 {
		t.Errorf("llms.txt lists only %d pages", len(listed))
	}
}
