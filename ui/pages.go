package ui

import (
	"bytes"
	"io"
	"net/http"

	"github.com/postrider/postrider/ui/act"
	"github.com/postrider/postrider/web"
)

// Sections of the navigation.
const (
	sectionMonitor  = "monitor"
	sectionMessages = "messages"
	sectionAudit    = "audit"
)

// pageRoutes registers the pages behind the first one and the forms on them. A monitor without an operator has those of partitions alone.
func (h *Handler) pageRoutes(page, form func(pattern string, handle http.HandlerFunc)) {
	for pattern, handle := range map[string]http.HandlerFunc{
		"GET /messages":               h.pageMessages,
		"GET /messages/confirm":       h.pageConfirm,
		"GET /messages/{message}":     h.pageMessage,
		"GET /audit":                  h.pageAudit,
		"GET /workers/{worker}/drain": h.pageDrain,
	} {
		page(pattern, h.operated(handle))
	}
	page("GET /partitions/{partition}", h.pageStory)
	page("GET /ownership", h.pageOwnership)
	for pattern, handle := range map[string]http.HandlerFunc{
		"POST /actions/messages":   h.formMessages,
		"POST /actions/partitions": h.formPartitions,
		"POST /actions/workers":    h.formWorkers,
	} {
		form(pattern, h.operated(handle))
	}
}

// operated says so where no operator was given.
func (h *Handler) operated(next http.HandlerFunc) http.HandlerFunc {
	if h.options.Operator != nil {
		return next
	}
	return func(w http.ResponseWriter, r *http.Request) { h.failPage(w, r, act.ErrNoOperator) }
}

// shellOf is the shell of a page in a section.
func (h *Handler) shellOf(r *http.Request, title, section string) web.Shell {
	shell := h.shell(r, title, false)
	shell.Section = section
	shell.Flash = flash(r.URL.Query())
	return shell
}

// send writes a page that is complete, or says that it could not be made.
func (h *Handler) send(w http.ResponseWriter, r *http.Request, status int, render func(io.Writer) error) {
	var page bytes.Buffer
	if err := render(&page); err != nil {
		h.options.Logger.ErrorContext(r.Context(), "monitor cannot make its page", logPath, r.URL.Path, logError, err)
		h.fail(w, r, http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	// The connection may be gone; nobody is left to be told.
	_, _ = page.WriteTo(w)
}
