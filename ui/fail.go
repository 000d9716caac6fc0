package ui

import (
	"net/http"
	"strings"

	"github.com/postrider/postrider/ui/act"
	"github.com/postrider/postrider/ui/api"
	"github.com/postrider/postrider/web"
)

// fail answers with a status that explains itself.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, status int) {
	switch status {
	case http.StatusNotFound:
		h.failWith(w, r, status, "not_found", "There is nothing at this address.")
	case http.StatusMethodNotAllowed:
		h.failWith(w, r, status, "method_not_allowed", "This address takes other methods; see the Allow header.")
	case http.StatusUnauthorized:
		h.failWith(w, r, status, "unauthorized", "Log in to see the monitor.")
	case http.StatusForbidden:
		h.failWith(w, r, status, "forbidden", "You may not see this.")
	default:
		h.failWith(w, r, status, "internal", "The monitor failed. Its log tells more.")
	}
}

// failWith answers under /api in JSON and elsewhere with a page.
func (h *Handler) failWith(w http.ResponseWriter, r *http.Request, status int, code, message string) {
	if r.URL.Path == "/api" || strings.HasPrefix(r.URL.Path, "/api/") {
		api.Fail(w, status, code, message)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	err := h.renderer.Failure(w, web.Failure{
		Shell:   h.shell(r, http.StatusText(status), true),
		Status:  status,
		Heading: http.StatusText(status),
		Detail:  message,
	})
	if err != nil {
		h.options.Logger.DebugContext(r.Context(), "monitor cannot send its failure page", logError, err)
	}
}

// shell fills what all pages share. A page that tells a stranger to log in shows neither version nor environment.
func (h *Handler) shell(r *http.Request, title string, anonymous bool) web.Shell {
	shell := web.Shell{Title: title, Root: relativeRoot(r.URL.Path)}
	if !anonymous {
		shell.Environment = h.options.Environment
		shell.Version = h.options.Version
		shell.ReadOnly = h.desk.Access(act.Who(r)) < AccessOperate
		shell.Operable = h.options.Operator != nil
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
