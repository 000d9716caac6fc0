package ui

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/postrider/postrider/ui/act"
)

// form reads a posted form, or answers the request itself. Acting may take longer than an answer usually may.
func (h *Handler) form(w http.ResponseWriter, r *http.Request) (url.Values, bool) {
	act.Prolong(w)
	err := r.ParseForm()
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		h.failWith(w, r, http.StatusRequestEntityTooLarge, "too_large", fmt.Sprintf("The form is larger than %d bytes.", tooLarge.Limit))
		return nil, false
	case err != nil:
		h.failWith(w, r, http.StatusBadRequest, "bad_form", "The form could not be read.")
		return nil, false
	}
	return r.PostForm, true
}

// seeOther leads to a page relative to the root, and tells there what was done.
// The address is relative, since the one that the browser sees is not known here.
func (h *Handler) seeOther(w http.ResponseWriter, r *http.Request, to string, done url.Values) {
	separator := "?"
	if strings.Contains(to, "?") {
		separator = "&"
	}
	w.Header().Set("Location", relativeRoot(r.URL.Path)+to+separator+done.Encode())
	w.WriteHeader(http.StatusSeeOther)
}

// failPage answers for a page that could not be made.
func (h *Handler) failPage(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // nobody is left to be told
	}
	c := h.desk.Complain(r.Context(), err)
	h.failWith(w, r, c.Status, c.Code, c.Message)
}
