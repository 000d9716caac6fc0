package meilitest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// one answers for a document.
func (i *index) one(r *http.Request, id string) (int, any) {
	d := i.documents[id]
	if d == nil {
		return fail(refuse(http.StatusNotFound, "invalid_request", "document_not_found", "Document `"+id+"` not found."))
	}
	return http.StatusOK, chosen(d, r.URL.Query().Get("fields"))
}

// list answers with a page of documents.
func (i *index) list(r *http.Request) (int, any) {
	offset, limit := 0, 20
	for name, value := range map[string]*int{"offset": &offset, "limit": &limit} {
		if text := r.URL.Query().Get(name); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 0 {
				return fail(refuse(http.StatusBadRequest, "invalid_request", "invalid_document_"+name, "Invalid value in parameter `"+name+"`."))
			}
			*value = n
		}
	}
	ids := slices.Sorted(maps.Keys(i.documents))
	results := []any{}
	for _, id := range ids[min(offset, len(ids)):min(offset+limit, len(ids))] {
		results = append(results, chosen(i.documents[id], r.URL.Query().Get("fields")))
	}
	return http.StatusOK, map[string]any{"results": results, "offset": offset, "limit": limit, "total": len(ids)}
}

// chosen is a document with these fields, separated by commas; all when there are none.
func chosen(d map[string]any, fields string) map[string]any {
	if fields == "" {
		return d
	}
	some := map[string]any{}
	for name := range strings.SplitSeq(fields, ",") {
		if value, ok := d[name]; ok {
			some[name] = value
		}
	}
	return some
}

// search finds documents that have every word, at the beginning of one of theirs, in a searchable attribute.
func (i *index) search(body []byte) (int, any) {
	query := struct {
		Q     string `json:"q"`
		Limit int    `json:"limit"`
	}{Limit: 20}
	if err := json.Unmarshal(body, &query); err != nil {
		return malformed(err)
	}
	hits := []any{}
	for _, id := range slices.Sorted(maps.Keys(i.documents)) {
		words := strings.Fields(strings.ToLower(i.text(i.documents[id])))
		found := true
		for wanted := range strings.FieldsSeq(strings.ToLower(query.Q)) {
			found = found && slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, wanted) })
		}
		if found && len(hits) < query.Limit {
			hits = append(hits, i.documents[id])
		}
	}
	return http.StatusOK, map[string]any{"hits": hits, "query": query.Q, "limit": query.Limit, "estimatedTotalHits": len(hits)}
}

// text is what is searched of a document.
func (i *index) text(d map[string]any) string {
	var text strings.Builder
	names, _ := i.settings["searchableAttributes"].([]any)
	for _, name := range slices.Sorted(maps.Keys(d)) {
		if slices.Contains(names, any("*")) || slices.Contains(names, any(name)) {
			fmt.Fprint(&text, d[name], " ")
		}
	}
	return text.String()
}
