package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// meiliIndex is an index of a Meilisearch server.
type meiliIndex struct {
	server *meiliServer
	uid    string
}

// meiliDocument is what is stored there. Its key holds letters, digits, - and _ alone, as Meilisearch wants it.
type meiliDocument struct {
	Key     string `json:"key"`
	ID      string `json:"id"`
	Title   string `json:"title"`
	Body    string `json:"body"`
	Version int64  `json:"version"`
	Hash    string `json:"hash"`
}

const meiliPage = 1000

// openMeili makes the index if it is not there, and gives it its settings.
func openMeili(ctx context.Context, server *meiliServer, uid string) (*meiliIndex, error) {
	m := &meiliIndex{server: server, uid: uid}
	return m, m.prepare(ctx)
}

func (m *meiliIndex) prepare(ctx context.Context) error {
	err := m.server.run(ctx, http.MethodPost, "/indexes", map[string]string{"uid": m.uid, "primaryKey": "key"})
	if err != nil && !isCode(err, "index_already_exists") {
		return fmt.Errorf("make index %s: %w", m.uid, err)
	}
	settings := map[string]any{"searchableAttributes": []string{"title", "body"}}
	if err := m.server.run(ctx, http.MethodPatch, m.path("/settings"), settings); err != nil {
		return fmt.Errorf("settings of index %s: %w", m.uid, err)
	}
	return nil
}

func (m *meiliIndex) path(rest string) string { return "/indexes/" + url.PathEscape(m.uid) + rest }

// meiliKey is the key of a document; two ids never share one.
func meiliKey(id string) string { return base64.RawURLEncoding.EncodeToString([]byte(id)) }

func (m *meiliIndex) put(ctx context.Context, documents ...document) error {
	list := make([]meiliDocument, len(documents))
	for i, d := range documents {
		list[i] = meiliDocument{Key: meiliKey(d.ID), ID: d.ID, Title: d.Title, Body: d.Body, Version: d.Version, Hash: d.entry().Hash}
	}
	return m.server.run(ctx, http.MethodPost, m.path("/documents?primaryKey=key"), list)
}

func (m *meiliIndex) remove(ctx context.Context, ids ...string) error {
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = meiliKey(id)
	}
	return m.server.run(ctx, http.MethodPost, m.path("/documents/delete-batch"), keys)
}

func (m *meiliIndex) lookup(ctx context.Context, id string) (entry, bool, error) {
	var d meiliDocument
	err := m.server.do(ctx, http.MethodGet, m.path("/documents/"+meiliKey(id)+"?fields=id,version,hash"), nil, &d)
	if isCode(err, "document_not_found") {
		return entry{}, false, nil
	}
	return d.entry(), err == nil, err
}

func (d meiliDocument) entry() entry { return entry{ID: d.ID, Version: d.Version, Hash: d.Hash} }

func (m *meiliIndex) each(ctx context.Context, visit func([]entry) error) error {
	for offset := 0; ; offset += meiliPage {
		var page struct {
			Results []meiliDocument `json:"results"`
		}
		path := m.path("/documents?fields=id,version,hash&limit=" + strconv.Itoa(meiliPage) + "&offset=" + strconv.Itoa(offset))
		if err := m.server.do(ctx, http.MethodGet, path, nil, &page); err != nil || len(page.Results) == 0 {
			return err
		}
		entries := make([]entry, len(page.Results))
		for i, d := range page.Results {
			entries[i] = d.entry()
		}
		if err := visit(entries); err != nil {
			return err
		}
	}
}

func (m *meiliIndex) search(ctx context.Context, query string, limit int) ([]document, error) {
	var page struct {
		Hits []meiliDocument `json:"hits"`
	}
	err := m.server.do(ctx, http.MethodPost, m.path("/search"), map[string]any{"q": query, "limit": limit}, &page)
	found := make([]document, len(page.Hits))
	for i, d := range page.Hits {
		found[i] = document{ID: d.ID, Version: d.Version, Title: d.Title, Body: d.Body}
	}
	return found, err
}

// rebuild empties the index that an interrupted rebuild may have left, and begins with its settings.
func (m *meiliIndex) rebuild(ctx context.Context) (rebuilding, error) {
	fresh := &meiliRebuild{meiliIndex: meiliIndex{server: m.server, uid: m.uid + "_rebuild"}, old: m}
	if err := fresh.discard(ctx); err != nil {
		return nil, err
	}
	return fresh, fresh.prepare(ctx)
}

func (m *meiliIndex) name() string {
	sum := sha256.Sum256([]byte(m.server.url + " " + m.uid))
	return "meilisearch-" + hex.EncodeToString(sum[:8])
}

func (m *meiliIndex) close() error {
	m.server.client.CloseIdleConnections()
	return nil
}

// meiliRebuild is an index that is being filled.
type meiliRebuild struct {
	meiliIndex

	old *meiliIndex
}

// swap exchanges the names of the two: whoever writes to the old name, from whatever process, writes to the fresh index.
// A swap whose answer was lost is not repeated, since a second one would undo it. The server works in order, so that the
// deletion that follows hits the old index then.
func (r *meiliRebuild) swap(ctx context.Context) error {
	pair := []map[string][]string{{"indexes": {r.old.uid, r.uid}}}
	if err := r.server.run(ctx, http.MethodPost, "/swap-indexes", pair); err != nil {
		return err
	}
	return r.discard(ctx)
}

func (r *meiliRebuild) discard(ctx context.Context) error {
	err := r.server.run(ctx, http.MethodDelete, r.path(""), nil)
	if isCode(err, "index_not_found") {
		return nil
	}
	return err
}

// isCode tells whether the server answered, or a task failed, with this code.
func isCode(err error, code string) bool {
	var answer *meiliError
	return errors.As(err, &answer) && answer.Code == code
}
