package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	// streamComment keeps proxies from closing a quiet stream.
	streamComment = 15 * time.Second
	// streamWrite bounds one write to a reader that no longer reads.
	streamWrite = 10 * time.Second
)

// events streams one "snapshot" event a second, whose data is the body of /api/v1/summary.
func (a *API) events(w http.ResponseWriter, r *http.Request) {
	s, err := a.hub.subscribe() //nolint:contextcheck // the reader serves all subscribers and outlives each
	if err != nil {
		w.Header().Set("Retry-After", "30")
		Fail(w, http.StatusServiceUnavailable, "streams_unavailable", "No event stream is to be had: "+err.Error()+".")
		return
	}
	defer a.hub.unsubscribe(s)

	w.Header().Set("Content-Type", "text/event-stream")
	// Some proxies would otherwise collect the stream before passing it on.
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	quiet := time.NewTimer(streamComment)
	defer quiet.Stop()
	frame := "retry: 2000\n\n"
	for {
		if err := send(w, frame); err != nil {
			return
		}
		quiet.Reset(streamComment)
		select {
		case seen := <-s.news:
			data, err := json.Marshal(a.newSummaryBody(seen))
			if err != nil {
				return
			}
			frame = fmt.Sprintf("event: snapshot\ndata: %s\n\n", data)
		case <-quiet.C:
			frame = ": quiet\n\n"
		case <-s.gone:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// send writes and flushes one frame. The server's write timeout is meant for ordinary answers; a stream gets a new deadline for each frame.
func send(w http.ResponseWriter, frame string) error {
	control := http.NewResponseController(w)
	if err := control.SetWriteDeadline(time.Now().Add(streamWrite)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("ui: stream deadline: %w", err)
	}
	if _, err := fmt.Fprint(w, frame); err != nil {
		return fmt.Errorf("ui: write to stream: %w", err)
	}
	if err := control.Flush(); err != nil {
		return fmt.Errorf("ui: flush stream: %w", err)
	}
	return nil
}
