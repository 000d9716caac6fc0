package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// The outcomes that end a call.
const (
	outcomeDone     = "done"     // the target executed it
	outcomeFailed   = "failed"   // the target executed it, and the procedure said no; nothing of it remains there
	outcomeOutdated = "outdated" // the target has gone past its id; whether it ever executed it is unknown
)

// Headers of the protocol. The sender's identity is not among them: it is what the token proves.
const (
	headerID        = "Call-Id"
	headerUUID      = "Call-Uuid"
	headerTarget    = "Call-Target"
	headerProcedure = "Call-Procedure"
	headerOutdated  = "Call-Outdated"
)

// largestAnswer bounds what is read of an answer, in bytes.
const largestAnswer = 1 << 20

// outgoing is a call that is under way to its target.
type outgoing struct {
	ID        int64
	UUID      uuid.UUID
	Target    string
	URL       string
	Token     string
	Procedure string
	Arguments []byte
	OnResult  string
	Attempts  int
}

// result is the last word about a call. It is what callbacks get.
type result struct {
	ID      int64
	Target  string
	Outcome string
	Answer  []byte
}

// retryError says why an attempt decided nothing, and how long the target wants to be left alone.
type retryError struct {
	cause error
	after time.Duration
}

func (e *retryError) Error() string { return e.cause.Error() }
func (e *retryError) Unwrap() error { return e.cause }

// deliver makes one attempt. Everything but a last word is a retryError.
func deliver(ctx context.Context, client *http.Client, timeout time.Duration, c outgoing) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(c.URL, "/")+"/call", bytes.NewReader(c.Arguments))
	if err != nil {
		return result{}, &retryError{cause: err}
	}
	request.Header.Set("Authorization", "Bearer "+c.Token)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(headerID, strconv.FormatInt(c.ID, 10))
	request.Header.Set(headerUUID, c.UUID.String())
	request.Header.Set(headerTarget, c.Target)
	request.Header.Set(headerProcedure, c.Procedure)
	response, err := client.Do(request)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no answer within %s", timeout)
		}
		return result{}, &retryError{cause: err}
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, largestAnswer+1))
	switch {
	case err != nil: // half an answer is none
		return result{}, &retryError{cause: fmt.Errorf("the answer broke off: %w", err)}
	case len(answer) > largestAnswer:
		return result{}, &retryError{cause: fmt.Errorf("the answer is longer than %d bytes", largestAnswer)}
	}
	return classify(c, response, answer)
}

// classify turns an answer into the call's last word, or says why it is none.
func classify(c outgoing, response *http.Response, answer []byte) (result, error) {
	r := result{ID: c.ID, Target: c.Target, Answer: answer}
	// Whatever stands between (a proxy, a login page) can answer 200, 400 and 422, too, although the receiver may have
	// executed the call before. A receiver's answers name it.
	ours := response.Header.Get(headerID) == strconv.FormatInt(c.ID, 10)
	switch status := response.StatusCode; {
	case status == http.StatusOK && ours:
		r.Outcome = outcomeDone
	case (status == http.StatusUnprocessableEntity || status == http.StatusPaymentRequired) && ours:
		r.Outcome = outcomeFailed
	case status == http.StatusBadRequest && ours && response.Header.Get(headerOutdated) != "":
		r.Outcome = outcomeOutdated
	default:
		return result{}, &retryError{cause: fmt.Errorf("answer %s: %s", response.Status, excerpt(answer)), after: retryAfter(response)}
	}
	return r, nil
}

// retryAfter is what the target asks for in seconds, 0 if it asks for nothing.
func retryAfter(response *http.Response) time.Duration {
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, 3600)) * time.Second
}

// excerpt is the beginning of an answer, for people.
func excerpt(answer []byte) string {
	const most = 200
	text := strings.ToValidUTF8(string(answer[:min(len(answer), most)]), "?")
	return strconv.QuoteToGraphic(strings.TrimSpace(text))
}

// newClient is an HTTP client that follows no redirection: a POST would arrive elsewhere as a GET.
func newClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
