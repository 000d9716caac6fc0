package main

import (
	"crypto/subtle"
	"net/http"

	"github.com/postrider/postrider/ui"
)

// users stand for the program's own, by name.
type users map[string]struct {
	password string
	access   ui.Access
}

// access is what whoever sent the request may do.
func (u users) access(r *http.Request) ui.Access {
	name, given, _ := r.BasicAuth()
	known, ok := u[name]
	if !ok || subtle.ConstantTimeCompare([]byte(given), []byte(known.password)) != 1 {
		return ui.AccessNone
	}
	return known.access
}

// name is who sent a request that access let in.
func name(r *http.Request) string {
	name, _, _ := r.BasicAuth()
	return name
}

// login stands for the program's own way to know its users. Health checks pass:
// whatever probes them has no password.
func login(people users, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case mount + "/healthz", mount + "/readyz":
		default:
			if people.access(r) == ui.AccessNone {
				w.Header().Set("WWW-Authenticate", `Basic realm="example"`)
				http.Error(w, "log in first", http.StatusUnauthorized)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}
