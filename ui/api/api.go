package api

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/postrider/postrider/ui/act"
)

// logActor is the actor's key in the log.
const logActor = "actor"

// API answers requests below /api.
type API struct {
	desk *act.Desk
	hub  *hub
}

// New returns the API, with at most that many event streams. It reads nothing before a request.
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

// decidedError is a finished answer.
type decidedError struct{ act.Complaint }

func (e decidedError) Error() string { return e.Message }

func decided(status int, code, message string) error {
	return decidedError{act.Complaint{Status: status, Code: code, Message: message}}
}

// failBy answers an API request with an error.
func (a *API) failBy(w http.ResponseWriter, r *http.Request, err error) {
	said, known := errors.AsType[decidedError](err)
	c := said.Complaint
	if !known {
		c = a.desk.Complain(r.Context(), err)
	}
	if c.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	WriteJSON(w, c.Status, problem{Error: c})
}

// answer makes the body of an answer, or the error in its place.
type answer func(w http.ResponseWriter, r *http.Request) (any, error)

func (a *API) json(next answer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := next(w, r)
		if err != nil {
			a.failBy(w, r, err)
			return
		}
		WriteJSON(w, http.StatusOK, body)
	}
}

// WriteJSON encodes the body before it sends the status.
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
