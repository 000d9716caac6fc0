package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/mapping"
	"github.com/blevesearch/bleve/v2/search"
)

// bleveIndex is an index in a folder. Its file "current" names the folder inside that is in use.
type bleveIndex struct {
	dir string
	id  string // given when it was made; a rebuild keeps it

	mu     sync.RWMutex // held for writing while live changes
	live   bleve.Index
	folder string
}

// bleveDocument is what Bleve stores: its fields decide what is searched.
type bleveDocument struct {
	Title   string  `json:"title"`
	Body    string  `json:"body"`
	Version float64 `json:"version"`
	Hash    string  `json:"hash"`
}

const (
	currentFile = "current"
	idFile      = "id"
	bleveWait   = "2s" // for the lock of a folder that another process has open
	blevePage   = 1000
)

// openBleve opens the index in a folder and makes it if it is not there. One process can have it open.
func openBleve(dir string) (*bleveIndex, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	name, err := os.ReadFile(filepath.Join(dir, currentFile))
	if errors.Is(err, os.ErrNotExist) {
		return firstBleve(dir)
	} else if err != nil {
		return nil, err
	}
	id, err := os.ReadFile(filepath.Join(dir, idFile))
	if err != nil {
		return nil, err
	}
	b := &bleveIndex{dir: dir, id: strings.TrimSpace(string(id)), folder: strings.TrimSpace(string(name))}
	b.live, err = bleve.OpenUsing(filepath.Join(dir, b.folder), map[string]any{"bolt_timeout": bleveWait})
	if err != nil {
		return nil, fmt.Errorf("open the index in %s (is another process using it?): %w", dir, err)
	}
	return b, b.sweep()
}

// sweep removes folders of rebuilds that were not finished.
func (b *bleveIndex) sweep() error {
	folders, err := filepath.Glob(filepath.Join(b.dir, "index-*"))
	for _, folder := range folders {
		if filepath.Base(folder) != b.folder {
			err = errors.Join(err, os.RemoveAll(folder))
		}
	}
	return err
}

func firstBleve(dir string) (*bleveIndex, error) {
	fresh, folder, err := newBleve(dir)
	if err != nil {
		return nil, err
	}
	b := &bleveIndex{dir: dir, id: strings.ToLower(rand.Text()), live: fresh, folder: folder}
	if err := write(dir, idFile, b.id); err != nil {
		return nil, errors.Join(err, fresh.Close())
	}
	return b, write(dir, currentFile, folder)
}

// write puts a file of one line in the place of another in one step.
func write(dir, name, line string) error {
	file := filepath.Join(dir, name)
	f, err := os.CreateTemp(dir, name)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return os.Rename(f.Name(), file)
}

func newBleve(dir string) (bleve.Index, string, error) {
	folder, err := os.MkdirTemp(dir, "index-")
	if err != nil {
		return nil, "", err
	}
	if err := os.Remove(folder); err != nil { // Bleve wants to make it itself
		return nil, "", err
	}
	fresh, err := bleve.New(folder, bleveMapping())
	return fresh, filepath.Base(folder), err
}

func bleveMapping() mapping.IndexMapping {
	text, kept := bleve.NewTextFieldMapping(), bleve.NewKeywordFieldMapping()
	kept.Index, kept.IncludeInAll, kept.DocValues = false, false, false
	number := bleve.NewNumericFieldMapping()
	number.Index, number.IncludeInAll, number.DocValues = false, false, false
	fields := bleve.NewDocumentStaticMapping()
	fields.AddFieldMappingsAt("title", text)
	fields.AddFieldMappingsAt("body", text)
	fields.AddFieldMappingsAt("version", number)
	fields.AddFieldMappingsAt("hash", kept)
	m := bleve.NewIndexMapping()
	m.DefaultMapping = fields
	return m
}

func (b *bleveIndex) put(_ context.Context, documents ...document) error {
	b.mu.RLock()
	defer b.mu.RUnlock()
	batch := b.live.NewBatch()
	for _, d := range documents {
		err := batch.Index(d.ID, bleveDocument{Title: d.Title, Body: d.Body, Version: float64(d.Version), Hash: d.entry().Hash})
		if err != nil {
			return fmt.Errorf("%w: %q: %w", errRefused, d.ID, err)
		}
	}
	return b.live.Batch(batch) // returns when it is on disk
}

func (b *bleveIndex) remove(_ context.Context, ids ...string) error {
	b.mu.RLock()
	defer b.mu.RUnlock()
	batch := b.live.NewBatch()
	for _, id := range ids {
		batch.Delete(id)
	}
	return b.live.Batch(batch)
}

func (b *bleveIndex) lookup(ctx context.Context, id string) (entry, bool, error) {
	request := bleve.NewSearchRequest(bleve.NewDocIDQuery([]string{id}))
	request.Fields = []string{"version", "hash"}
	hits, err := b.hits(ctx, request)
	if err != nil || len(hits) == 0 {
		return entry{}, false, err
	}
	return bleveEntry(hits[0]), true, nil
}

func (b *bleveIndex) each(ctx context.Context, visit func([]entry) error) error {
	request := bleve.NewSearchRequestOptions(bleve.NewMatchAllQuery(), blevePage, 0, false)
	request.Fields = []string{"version", "hash"}
	request.SortBy([]string{"_id"})
	for {
		hits, err := b.hits(ctx, request)
		if err != nil || len(hits) == 0 {
			return err
		}
		entries := make([]entry, len(hits))
		for i, hit := range hits {
			entries[i] = bleveEntry(hit)
		}
		if err := visit(entries); err != nil {
			return err
		}
		request.SetSearchAfter([]string{hits[len(hits)-1].ID})
	}
}

func (b *bleveIndex) search(ctx context.Context, query string, limit int) ([]document, error) {
	request := bleve.NewSearchRequestOptions(bleve.NewMatchQuery(query), limit, 0, false)
	request.Fields = []string{"title", "body", "version"}
	hits, err := b.hits(ctx, request)
	if err != nil {
		return nil, err
	}
	found := make([]document, len(hits))
	for i, hit := range hits {
		found[i] = document{ID: hit.ID, Version: bleveEntry(hit).Version}
		found[i].Title, _ = hit.Fields["title"].(string)
		found[i].Body, _ = hit.Fields["body"].(string)
	}
	return found, nil
}

func (b *bleveIndex) hits(ctx context.Context, request *bleve.SearchRequest) (search.DocumentMatchCollection, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	result, err := b.live.SearchInContext(ctx, request)
	if err != nil {
		return nil, err
	}
	return result.Hits, nil
}

func bleveEntry(hit *search.DocumentMatch) entry {
	e := entry{ID: hit.ID}
	if version, ok := hit.Fields["version"].(float64); ok {
		e.Version = int64(version)
	}
	e.Hash, _ = hit.Fields["hash"].(string)
	return e
}

func (b *bleveIndex) rebuild(context.Context) (rebuilding, error) {
	fresh, folder, err := newBleve(b.dir)
	if err != nil {
		return nil, err
	}
	return &bleveRebuild{bleveIndex: bleveIndex{dir: b.dir, id: b.id, live: fresh, folder: folder}, old: b}, nil
}

func (b *bleveIndex) name() string { return "bleve-" + b.id }

func (b *bleveIndex) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.live.Close()
}

// bleveRebuild is an index in a folder that is not the current one.
type bleveRebuild struct {
	bleveIndex

	old *bleveIndex
}

// swap waits for what is being written to the old index; what began later goes to the new one.
func (r *bleveRebuild) swap(context.Context) error {
	r.old.mu.Lock()
	defer r.old.mu.Unlock()
	if err := write(r.dir, currentFile, r.folder); err != nil {
		return err
	}
	former := r.old.live
	r.old.live, r.old.folder = r.live, r.folder
	return errors.Join(former.Close(), r.old.sweep())
}

func (r *bleveRebuild) discard(context.Context) error {
	return errors.Join(r.live.Close(), os.RemoveAll(filepath.Join(r.dir, r.folder)))
}
