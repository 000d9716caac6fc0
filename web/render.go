package web

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"io/fs"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed static
var staticFiles embed.FS

// Static returns the style sheet, the scripts and the icon, rooted so that "monitor.css" is a file name in it.
func Static() (fs.FS, error) {
	files, err := fs.Sub(staticFiles, "static")
	if err != nil {
		return nil, fmt.Errorf("web: open static files: %w", err)
	}
	return files, nil
}

// Renderer turns page structs into HTML. It is safe for concurrent use.
type Renderer struct {
	templates *template.Template
}

// NewRenderer parses the embedded templates.
func NewRenderer() (*Renderer, error) {
	parsed, err := template.New("web").Funcs(formatFuncs()).Option("missingkey=error").
		ParseFS(templateFiles, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("web: parse templates: %w", err)
	}
	return &Renderer{templates: parsed}, nil
}

// Render writes the page of a template, which takes the struct of its name; the pause template takes a [Story].
func (r *Renderer) Render(w io.Writer, name string, data any) error {
	var page bytes.Buffer
	if err := r.templates.ExecuteTemplate(&page, name, data); err != nil {
		return fmt.Errorf("web: render %s: %w", name, err)
	}
	if _, err := page.WriteTo(w); err != nil {
		return fmt.Errorf("web: write %s: %w", name, err)
	}
	return nil
}
