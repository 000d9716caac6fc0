package pages

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/postrider/postrider/ui/act"
	"github.com/postrider/postrider/web"
)

// Sections of the navigation.
const (
	sectionMonitor  = "monitor"
	sectionTopics   = "topics"
	sectionMessages = "messages"
	sectionReplays  = "replays"
	sectionAudit    = "audit"
)

// Keys of log records.
const (
	logError    = "error"
	logPath     = "path"
	logActor    = "actor"
	logSequence = "sequence"
)

// Pages answers people.
type Pages struct {
	desk     *act.Desk
	renderer *web.Renderer
}

// New reads the templates.
func New(desk *act.Desk) (*Pages, error) {
	renderer, err := web.NewRenderer()
	if err != nil {
		return nil, fmt.Errorf("ui: %w", err)
	}
	return &Pages{desk: desk, renderer: renderer}, nil
}

// Routes registers the pages and the forms on them. A monitor without an operator has those of partitions alone.
func (p *Pages) Routes(page, form func(pattern string, handle http.HandlerFunc)) {
	for pattern, handle := range map[string]handler{
		"GET /messages":                     p.messages,
		"GET /messages/confirm":             p.confirm,
		"GET /messages/causes":              p.causes,
		"GET /messages/{message}":           p.message,
		"GET /streams":                      p.stream,
		"GET /replays":                      p.replays,
		"GET /replays/confirm":              p.confirmReplay,
		"GET /replays/{replay}/cancel":      p.cancelReplay,
		"GET /partitions/resize":            p.resize,
		"GET /partitions/resize/confirm":    p.confirmResize,
		"GET /partitions/{partition}/pause": p.confirmPause,
		"GET /audit":                        p.audit,
		"GET /workers/{worker}/drain":       p.drain,
	} {
		page(pattern, p.operated(handle))
	}
	page("GET /{$}", p.serve(p.overview))
	page("GET /partitions/{partition}", p.serve(p.story))
	page("GET /ownership", p.serve(p.ownership))
	page("GET /topics", p.serve(p.topics))
	for pattern, handle := range map[string]handler{
		"POST /actions/messages":   p.formMessages,
		"POST /actions/partitions": p.formPartitions,
		"POST /actions/workers":    p.formWorkers,
		"POST /actions/replays":    p.formReplays,
		"POST /actions/resize":     p.formResize,
	} {
		form(pattern, p.operated(handle))
	}
}

// handler answers a request, or returns why it has not.
type handler func(w http.ResponseWriter, r *http.Request) error

func (p *Pages) serve(next handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := next(w, r); err != nil {
			p.failPage(w, r, err)
		}
	}
}

// operated says so where there is no operator.
func (p *Pages) operated(next handler) http.HandlerFunc {
	return p.serve(func(w http.ResponseWriter, r *http.Request) error {
		if _, err := p.desk.MayLook(); err != nil {
			return err
		}
		return next(w, r)
	})
}

// shellOf returns the shell of a page in a section.
func (p *Pages) shellOf(r *http.Request, title, section string) web.Shell {
	shell := p.shell(r, title, false)
	shell.Section = section
	shell.Flash = flash(r.URL.Query())
	return shell
}

var (
	errUnmade = errors.New("the page could not be made")
	errUnread = errors.New("the database has not answered yet")
)

// send writes a complete page.
func (p *Pages) send(w http.ResponseWriter, r *http.Request, status int, template string, data any) error {
	var page bytes.Buffer
	if err := p.renderer.Render(&page, template, data); err != nil {
		p.desk.Logger.ErrorContext(r.Context(), "monitor cannot make its page", logPath, r.URL.Path, logError, err)
		return errUnmade
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	// The connection may be gone; nobody is left to be told.
	_, _ = page.WriteTo(w)
	return nil
}

// Fail answers with a page that describes an error; it shows strangers nothing else.
func (p *Pages) Fail(w http.ResponseWriter, r *http.Request, status int, message string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	err := p.renderer.Render(w, "failure", web.ErrorPage{
		Shell: p.shell(r, http.StatusText(status), true), Status: status, Heading: http.StatusText(status), Detail: message,
	})
	if err != nil {
		p.desk.Logger.DebugContext(r.Context(), "monitor cannot send its failure page", logError, err)
	}
}

// shell fills the parts that all pages share. A login page for strangers shows neither version nor environment.
func (p *Pages) shell(r *http.Request, title string, anonymous bool) web.Shell {
	shell := web.Shell{Title: title, Root: relativeRoot(r.URL.Path)}
	if !anonymous {
		shell.Environment = p.desk.Environment
		shell.Version = p.desk.Version
		shell.ReadOnly = p.desk.Access(act.Who(r)) < act.AccessOperate
		shell.Operable = p.desk.Means().Operator != nil
		shell.MayAct = shell.Operable && !shell.ReadOnly
	}
	return shell
}

// relativeRoot leads from a path back to the monitor's root.
func relativeRoot(path string) string {
	depth := strings.Count(path, "/") - 1
	if depth <= 0 {
		return "./"
	}
	return strings.Repeat("../", depth)
}
