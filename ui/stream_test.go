package ui_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/postrider/postrider/ui"
)

// A stream's page has its events alone, with what became of each, and says where it stands.
func TestAStreamsLife(t *testing.T) {
	t.Parallel()
	b := newPages(t, 4)
	const name = "order/7 & <co>"
	published, skipped := b.append(t, name), b.append(t, name)
	dead, blocked := b.append(t, name), b.append(t, name)
	failed := b.append(t, "other")
	b.publish(t, published)
	b.kill(t, "never mind", skipped)
	server := b.serve(t, ui.Options{})
	wantStatus(t, call(t, server, http.MethodPost, "/actions/messages", header("Content-Type", "application/x-www-form-urlencoded"),
		withBody(url.Values{"selected": {"skip"}, "dead": {fmt.Sprint(skipped)}, "reason": {"r"}}.Encode())), http.StatusSeeOther)
	b.kill(t, "no such <b>subject</b>", dead)
	b.block(t, blocked)
	b.fail(t, "hiccup", failed)
	address := "/streams?" + url.Values{"stream": {name}}.Encode()
	page := fullPage(t, server, address)
	wantRows(t, page, blocked, dead, skipped, published)
	wantContains(t, page, "Stream <bdi>order/7 &amp; &lt;co&gt;</bdi>", `id="standing"`, fmt.Sprintf(`messages/%d">%d</a> is dead and waits for a person`, dead, dead),
		"no such &lt;b&gt;subject&lt;/b&gt;", "waits for ", "skipped")
	wantLacks(t, page, "<b>subject", "hiccup")
	for sequence, want := range map[int64][]string{
		published: {`<td class="number">1</td>`, `state published`, `<td class="number">1</td><td class="number"><a href="./partitions/`},
		dead:      {`<td class="number">3</td>`, `state dead`, `<span class="dim">–</span></td><td class="number"><a href="./partitions/`, `<td class="number">3</td>`},
	} {
		_, row, _ := strings.Cut(page.text, fmt.Sprintf(`<tr id="m-%d">`, sequence))
		row, _, _ = strings.Cut(row, "</tr>")
		for _, part := range want {
			if !strings.Contains(row, part) {
				t.Errorf("the row of %d lacks %q: %s", sequence, part, row)
			}
		}
	}
	wantLacks(t, fullPage(t, server, "/streams?stream=other"), `id="standing"`) // nothing waits behind it
	wantContains(t, fullPage(t, server, "/streams?stream=none"), "No event of it")
	for query, status := range map[string]int{"": http.StatusBadRequest, "?stream=%00": http.StatusBadRequest, "?stream=a&before=x": http.StatusBadRequest} {
		wantStatus(t, call(t, server, http.MethodGet, "/streams"+query), status)
	}
	// The pages that name the stream lead to it.
	link := regexp.MustCompile(`href="(?:\./|\.\./)(streams\?stream=[^"]+)"`)
	for _, from := range []string{"/messages?state=dead", fmt.Sprintf("/messages/%d", dead)} {
		match := link.FindStringSubmatch(call(t, server, http.MethodGet, from).text)
		if match == nil {
			t.Errorf("%s does not lead to the stream", from)
			continue
		}
		wantRows(t, fullPage(t, server, "/"+html.UnescapeString(match[1])), blocked, dead, skipped, published)
	}
}

func TestALongStreamIsPaged(t *testing.T) {
	t.Parallel()
	b := newPages(t, 2)
	var all []int64
	for range 70 {
		all = append([]int64{b.append(t, "long")}, all...)
	}
	server := b.serve(t, ui.Options{})
	first := fullPage(t, server, "/streams?stream=long")
	wantRows(t, first, all[:50]...)
	older := regexp.MustCompile(`href="\./([^"]+)" rel="next"`).FindStringSubmatch(first.text)
	if older == nil {
		t.Fatal("there is no older page")
	}
	second := fullPage(t, server, "/"+html.UnescapeString(older[1]))
	wantRows(t, second, all[50:]...)
	wantContains(t, second, `href="./streams?after=`, `rel="prev"`)
	// What all wait for is on the second page, and the first one tells of it, too.
	b.kill(t, "no", all[69])
	b.block(t, all[:69]...)
	wantContains(t, fullPage(t, server, "/streams?stream=long"), `id="standing"`, fmt.Sprintf(`messages/%d">%d</a> is dead`, all[69], all[69]))
}
