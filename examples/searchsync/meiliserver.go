package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// meiliServer is a Meilisearch server, spoken to by its HTTP API (https://www.meilisearch.com/docs/reference/api/overview).
type meiliServer struct {
	url    string
	key    string
	client *http.Client
	// timeout of one request.
	timeout time.Duration

	mu    sync.Mutex
	after time.Time // a server that says 429 is left alone until then, by all
}

const (
	meiliTimeout     = 5 * time.Second
	meiliTaskTimeout = 20 * time.Second // of a task, from its acceptance
	meiliLongestRest = 10 * time.Second // that a Retry-After is taken for
	meiliAnswer      = 64 << 20         // bytes
)

// newMeiliServer refuses an address that is none.
func newMeiliServer(address, key string) (*meiliServer, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("--meili-url must be an http or https address, got %q", address)
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}
	return &meiliServer{url: strings.TrimSuffix(address, "/"), key: key, client: client, timeout: meiliTimeout}, nil
}

// meiliError is what the server says of a request or a task that failed.
type meiliError struct {
	Status  int    `json:"-"` // 0 for a task
	Message string `json:"message"`
	Code    string `json:"code"`
	Type    string `json:"type"`
}

func (e *meiliError) Error() string {
	where := "task"
	if e.Status != 0 {
		where = "answer " + strconv.Itoa(e.Status)
	}
	return fmt.Sprintf("meilisearch: %s: %s (%s)", where, e.Message, e.Code)
}

// refusing are the codes that blame the document: sent again it is refused again.
var refusing = []string{
	"invalid_document_id", "missing_document_id", "document_fields_limit_reached", "payload_too_large", "max_fields_limit_exceeded",
	"invalid_document_fields", "invalid_document_geo_field",
}

// Is makes such an error an errRefused.
func (e *meiliError) Is(target error) bool {
	return target == errRefused && slices.Contains(refusing, e.Code)
}

// task is what the server works on. Requests that change something are answered with one before anything has happened.
type task struct {
	// An accepted request has its number under this name, a task itself under UID.
	TaskUID *int64      `json:"taskUid"`
	UID     int64       `json:"uid"`
	Status  string      `json:"status"`
	Error   *meiliError `json:"error"`
}

// run makes a request and waits until the server has done what it asks. An error may leave it done all the same.
func (s *meiliServer) run(ctx context.Context, method, path string, body any) error {
	var accepted task
	if err := s.do(ctx, method, path, body, &accepted); err != nil {
		return err
	}
	if accepted.TaskUID == nil {
		return fmt.Errorf("meilisearch: %s %s was answered without a taskUid; is this a Meilisearch server?", method, path)
	}
	return s.wait(ctx, *accepted.TaskUID)
}

// wait waits for a task.
func (s *meiliServer) wait(ctx context.Context, uid int64) error {
	ctx, cancel := context.WithTimeout(ctx, meiliTaskTimeout)
	defer cancel()
	for step := time.Millisecond; ; step = min(2*step, 250*time.Millisecond) {
		var t task
		err := s.do(ctx, http.MethodGet, "/tasks/"+strconv.FormatInt(uid, 10), nil, &t)
		var answer *meiliError
		switch {
		case errors.As(err, &answer) && answer.Status < http.StatusInternalServerError && answer.Status != http.StatusTooManyRequests:
			return err // the key may not read tasks, say
		case err != nil && ctx.Err() != nil:
			return fmt.Errorf("meilisearch: task %d: %w", uid, err)
		case err != nil: // asked again: what it did is decided
		case t.Status == "succeeded":
			return nil
		case t.Status == "failed" && t.Error != nil:
			return fmt.Errorf("task %d: %w", uid, t.Error)
		case t.Status == "failed", t.Status == "canceled":
			return fmt.Errorf("meilisearch: task %d was %s", uid, t.Status)
		}
		if !pause(ctx, step) {
			return fmt.Errorf("meilisearch: task %d is %q after %s", uid, t.Status, meiliTaskTimeout)
		}
	}
}

// do makes one request and reads its answer into result.
func (s *meiliServer) do(ctx context.Context, method, path string, body, result any) error {
	if err := s.rest(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var content io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, s.url+path, content)
	if err != nil {
		return err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if s.key != "" {
		request.Header.Set("Authorization", "Bearer "+s.key)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return fmt.Errorf("meilisearch: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, meiliAnswer))
	if err != nil {
		return fmt.Errorf("meilisearch: the answer broke off: %w", err)
	}
	if response.StatusCode/100 != 2 {
		return s.refused(response, answer)
	}
	if err := json.Unmarshal(answer, result); err != nil {
		return fmt.Errorf("meilisearch: %s %s: the answer is not what the API says: %w", method, path, err)
	}
	return nil
}

func (s *meiliServer) refused(response *http.Response, answer []byte) error {
	e := &meiliError{}
	if json.Unmarshal(answer, e) != nil || e.Message == "" { // a proxy's
		e.Message, e.Code = strings.TrimSpace(string(answer[:min(len(answer), 200)])), "http_"+strconv.Itoa(response.StatusCode)
	}
	e.Status = response.StatusCode
	if e.Status == http.StatusRequestEntityTooLarge {
		e.Code = "payload_too_large"
	}
	if e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable {
		if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
			s.mu.Lock()
			s.after = time.Now().Add(min(time.Duration(seconds)*time.Second, meiliLongestRest))
			s.mu.Unlock()
		}
	}
	return e
}

// rest waits until the server wants to be asked again.
func (s *meiliServer) rest(ctx context.Context) error {
	s.mu.Lock()
	left := time.Until(s.after)
	s.mu.Unlock()
	if left > 0 && !pause(ctx, left) {
		return ctx.Err()
	}
	return ctx.Err()
}
