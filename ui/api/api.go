package api

import (
	"encoding/json"
	"net/http"

	"github.com/postrider/postrider/ui/act"
)

// logActor is the key of who acts in the log.
const logActor = "actor"

// API answers what is below /api.
type API struct {
	desk *act.Desk
	hub  *hub
}

// New returns the API, with so many event streams at most. It reads nothing before it is asked.
func New(desk *act.Desk, streams int) *API { return &API{desk: desk, hub: newHub(desk.Cache, streams)} }

// CloseStreams ends the open event streams and refuses new ones.
func (a *API) CloseStreams() { a.hub.close() }

// problem is the body of every failed API request.
type problem struct {
	Error act.Complaint `json:"error"`
}

// Fail answers with an error.
func Fail(w http.ResponseWriter, status int, code, message string) {
	WriteJSON(w, status, problem{Error: act.Complaint{Code: code, Message: message}})
}

// failBy answers an API request with an error, and how much was done before it.
func (a *API) failBy(w http.ResponseWriter, r *http.Request, err error, done int64) {
	c := a.desk.Complain(r.Context(), err)
	c.Count = done
	if c.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	WriteJSON(w, c.Status, problem{Error: c})
}

// reply answers an API request with what came of it, or with the error.
func (a *API) reply(w http.ResponseWriter, r *http.Request, body any, err error) {
	if err != nil {
		a.failBy(w, r, err, 0)
		return
	}
	WriteJSON(w, http.StatusOK, body)
}

// WriteJSON sends a body that was encoded before the status is decided.
func WriteJSON(w http.ResponseWriter, status int, body any) {
	encoded, err := json.Marshal(body)
	if err != nil { // a programming error: all bodies are plain structs
		status, encoded = http.StatusInternalServerError, []byte(`{"error":{"code":"internal","message":"encoding failed"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// The connection may be gone; nobody is left to be told.
	_, _ = w.Write(append(encoded, '\n'))
}
