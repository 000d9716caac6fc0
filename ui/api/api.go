package api

import (
	"encoding/json"
	"net/http"

	"github.com/postrider/postrider/ui/act"
	"github.com/postrider/postrider/ui/source"
)

// logActor is the key of who acts in the log.
const logActor = "actor"

// Config is what the API is made of. Every field but Environment is required.
type Config struct {
	Cache     *source.Cache
	Readiness *source.Readiness
	Desk      *act.Desk
	// Environment and Version stand in the summary.
	Environment, Version string
	// MaxStreams caps the open event streams.
	MaxStreams int
}

// API answers what is below /api.
type API struct {
	config Config
	hub    *hub
}

// New returns the API, which reads nothing before it is asked.
func New(config Config) *API {
	return &API{config: config, hub: newHub(config.Cache, config.MaxStreams)}
}

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
	c := a.config.Desk.Complain(r.Context(), err)
	c.Count = done
	if c.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	WriteJSON(w, c.Status, problem{Error: c})
}

// WriteJSON sends a body that was encoded before the status is decided.
func WriteJSON(w http.ResponseWriter, status int, body any) {
	encoded, err := json.Marshal(body)
	if err != nil {
		// Only a programming error gets here: all bodies are plain structs.
		http.Error(w, `{"error":{"code":"internal","message":"encoding failed"}}`, http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// The connection may be gone; nobody is left to be told.
	_, _ = w.Write(append(encoded, '\n'))
}
