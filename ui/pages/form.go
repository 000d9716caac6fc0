package pages

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/postrider/postrider/ui/act"
)

// form reads a posted form, or answers the request. It prolongs the timeout, as actions take long.
func (p *Pages) form(w http.ResponseWriter, r *http.Request) (url.Values, bool) {
	act.Prolong(w)
	err := r.ParseForm()
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		p.Fail(w, r, http.StatusRequestEntityTooLarge, fmt.Sprintf("The form is larger than %d bytes.", tooLarge.Limit))
		return nil, false
	case err != nil:
		p.Fail(w, r, http.StatusBadRequest, "The form could not be read.")
		return nil, false
	}
	return r.PostForm, true
}

// seeOther redirects to a page relative to the root, with the result in its address. It is relative, since the browser's address is
// unknown here.
func (p *Pages) seeOther(w http.ResponseWriter, r *http.Request, to string, done url.Values) error {
	separator := "?"
	if strings.Contains(to, "?") {
		separator = "&"
	}
	w.Header().Set("Location", relativeRoot(r.URL.Path)+to+separator+done.Encode())
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// failPage answers with the error of a page.
func (p *Pages) failPage(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, errUnmade):
		p.Fail(w, r, http.StatusInternalServerError, "The monitor failed. Its log tells more.")
	case errors.Is(err, errUnread):
		w.Header().Set("Retry-After", "1")
		p.Fail(w, r, http.StatusServiceUnavailable, "The database has not answered yet. The log of this process tells why."+p.desk.Readiness.Because(r.Context()))
	case r.Context().Err() == nil: // else nobody is left to tell
		c := p.desk.Complain(r.Context(), err)
		p.Fail(w, r, c.Status, c.Message)
	}
}
