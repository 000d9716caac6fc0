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

// Static returns the style sheet, the scripts and the icon, rooted so that
// "monitor.css" is a file name in it.
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

// Monitor writes the monitor's page.
func (r *Renderer) Monitor(w io.Writer, page Monitor) error {
	return r.render(w, "monitor", page)
}

// Failure writes the page that stands in for one that cannot be shown.
func (r *Renderer) Failure(w io.Writer, page ErrorPage) error {
	return r.render(w, "failure", page)
}

// Messages writes the list of messages.
func (r *Renderer) Messages(w io.Writer, page Messages) error { return r.render(w, "messages", page) }

// Causes writes the page of what messages are dead of.
func (r *Renderer) Causes(w io.Writer, page Causes) error { return r.render(w, "causes", page) }

// Replays writes the list of replays.
func (r *Renderer) Replays(w io.Writer, page Replays) error { return r.render(w, "replays", page) }

// ReplayConfirm writes the page that asks before events are replayed.
func (r *Renderer) ReplayConfirm(w io.Writer, page ReplayConfirm) error {
	return r.render(w, "replay-confirm", page)
}

// ReplayCancel writes the page that asks before a replay is ended.
func (r *Renderer) ReplayCancel(w io.Writer, page ReplayCancel) error {
	return r.render(w, "replay-cancel", page)
}

// Resize writes the page of the number of partitions.
func (r *Renderer) Resize(w io.Writer, page Resize) error { return r.render(w, "resize", page) }

// ResizeConfirm writes the question before that number is changed.
func (r *Renderer) ResizeConfirm(w io.Writer, page ResizeConfirm) error {
	return r.render(w, "resize-confirm", page)
}

// PauseConfirm writes the question before a partition is paused; it takes what the partition's own page takes.
func (r *Renderer) PauseConfirm(w io.Writer, page Story) error {
	return r.render(w, "pause-confirm", page)
}

// Message writes the page of one message.
func (r *Renderer) Message(w io.Writer, page Message) error { return r.render(w, "message", page) }

// Topics writes the page of what topics and types do.
func (r *Renderer) Topics(w io.Writer, page Topics) error { return r.render(w, "topics", page) }

// Stream writes the page of one stream's life.
func (r *Renderer) Stream(w io.Writer, page Stream) error { return r.render(w, "stream", page) }

// Confirm writes the question before messages are changed.
func (r *Renderer) Confirm(w io.Writer, page Confirm) error { return r.render(w, "confirm", page) }

// Story writes the page of one partition.
func (r *Renderer) Story(w io.Writer, page Story) error { return r.render(w, "story", page) }

// Drain writes the question before a worker is drained.
func (r *Renderer) Drain(w io.Writer, page Drain) error { return r.render(w, "drain", page) }

// Audit writes a page of the audit.
func (r *Renderer) Audit(w io.Writer, page Audit) error { return r.render(w, "audit", page) }

// Ownership writes a page of the history of ownership.
func (r *Renderer) Ownership(w io.Writer, page OwnershipPage) error {
	return r.render(w, "ownership", page)
}

func (r *Renderer) render(w io.Writer, name string, data any) error {
	var page bytes.Buffer
	if err := r.templates.ExecuteTemplate(&page, name, data); err != nil {
		return fmt.Errorf("web: render %s: %w", name, err)
	}
	if _, err := page.WriteTo(w); err != nil {
		return fmt.Errorf("web: write %s: %w", name, err)
	}
	return nil
}
