package ui

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"time"
)

// assets serves the embedded files. A browser revalidates its copy each time, so that an upgrade shows at once.
type assets struct {
	files map[string]asset
}

type asset struct {
	content []byte
	tag     string
}

func newAssets(static fs.FS) (*assets, error) {
	a := &assets{files: map[string]asset{}}
	err := fs.WalkDir(static, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(static, name)
		if err != nil {
			return err
		}
		digest := sha256.Sum256(content)
		a.files[name] = asset{content: content, tag: `"` + hex.EncodeToString(digest[:8]) + `"`}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("ui: read static files: %w", err)
	}
	return a, nil
}

// serve reports whether the file exists.
func (a *assets) serve(w http.ResponseWriter, r *http.Request, name string) bool {
	file, ok := a.files[name]
	if !ok {
		return false
	}
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", file.tag)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(file.content))
	return true
}
