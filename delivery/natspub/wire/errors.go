package wire

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/condition"
	"github.com/postrider/postrider/delivery"
)

// ErrConfig is wrapped by every complaint about settings.
var ErrConfig = errors.New("nats configuration")

// A stream's check returns these errors.
var (
	ErrStreamMissing = errors.New("stream does not exist")
	ErrStreamUnfit   = errors.New("stream does not fit")
)

// ErrHeader means that an event has a header which cannot be sent.
var ErrHeader = errors.New("header cannot be sent")

// APIError is a refusal by the JetStream API.
type APIError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

// Error names the server's code, so that people can look it up.
func (e *APIError) Error() string {
	return fmt.Sprintf("%s (JetStream error %d)", e.Description, e.ErrCode)
}

// Codes of the JetStream API, as the server's errors.json names them.
const (
	codeMessageTooLarge     = 10054 // JSStreamMessageExceedsMaximumErr
	codeStreamNotFound      = 10059
	codeStreamNotMatch      = 10060 // expected stream does not match
	codeHeaderTooLarge      = 10097
	codeRollupRefused       = 10111
	CodeBadExpectedSequence = 10071
	codeMalformedSubject    = 10208
	codeStreamSealed        = 10109
	codePurgeFailed         = 10110
)

// Classify classes a failure: the message's own, an outage, a matter of configuration, or an unknown outcome.
func Classify(err error) delivery.Outcome {
	var api *APIError
	switch {
	case errors.As(err, &api):
		return classifyAPI(api)
	case errors.Is(err, nats.ErrMaxPayload), errors.Is(err, nats.ErrBadSubject),
		errors.Is(err, nats.ErrBadHeaderMsg), errors.Is(err, nats.ErrInvalidMsg):
		return delivery.Outcome{Kind: delivery.Permanent, Err: err}
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrReconnectBufExceeded),
		errors.Is(err, nats.ErrConnectionReconnecting), errors.Is(err, nats.ErrConnectionClosed),
		errors.Is(err, nats.ErrConnectionDraining), errors.Is(err, nats.ErrDisconnected),
		errors.Is(err, ErrNotConnected): // also where a login is refused: others may let it in again
		return delivery.Outcome{Kind: delivery.Unresolved, Err: fmt.Errorf("%w: %w", delivery.ErrOutage, err)}
	case errors.Is(err, nats.ErrPermissionViolation), refusesLogin(err), errors.Is(err, nats.ErrHeadersNotSupported):
		return delivery.Outcome{Kind: delivery.Unresolved, Err: fmt.Errorf("%w: %w", delivery.ErrConfiguration, err)}
	default:
		return delivery.Outcome{Kind: delivery.Unresolved, Err: fmt.Errorf("%w: %w", delivery.ErrUnknown, err)}
	}
}

func classifyAPI(api *APIError) delivery.Outcome {
	switch code := api.ErrCode; {
	case OfMessage(code):
		return delivery.Outcome{Kind: delivery.Permanent, Err: api}
	case code == codeStreamNotFound, code == codeRollupRefused, code == CodeBadExpectedSequence:
		return delivery.Outcome{Kind: delivery.Unresolved, Err: fmt.Errorf("%w: %w", delivery.ErrConfiguration, api)}
	default: // full, no leader, overloaded, and whatever a newer server says
		return delivery.Outcome{Kind: delivery.Unresolved, Err: fmt.Errorf("%w: %w", delivery.ErrOutage, api)}
	}
}

// Codes of atomic batches, as nats-server 2.12 to 2.15 answer them.
const (
	CodeBatchNotEnabled    = 10174
	CodeBatchIncomplete    = 10176
	CodeBatchTooMany       = 10210
	CodeStreamFull         = 10077
	codePersistAsync       = 10052
	codeBatchTooLarge      = 10199
	codeBatchIDInvalid     = 10179
	codeExpectedPerSubject = 10193
	codeDuplicateInBatch   = 10201
)

// NoRoom reports whether a code is of a limit of the account or of the server: JSAccountResourcesExceededErr, JSInsufficientResourcesErr,
// JSMemoryResourcesExceededErr, JSStorageResourcesExceededErr.
func NoRoom(code int) bool { return slices.Contains([]int{10002, 10023, 10028, 10047}, code) }

// OfMessage reports whether a code concerns one message's size, headers or subject.
func OfMessage(code int) bool {
	return code == codeMessageTooLarge || code == codeHeaderTooLarge || code == codeMalformedSubject
}

// IsConfiguration reports whether only a person can cure such an answer.
func IsConfiguration(err error) bool {
	switch Refusal(err) {
	case codePersistAsync, codeRollupRefused,
		codeBatchTooLarge, codeBatchIDInvalid, codeExpectedPerSubject, codeDuplicateInBatch:
		return true
	}
	return false
}

// Reason classes a publisher's error; "": it is not the broker's. It is a condition.Judge.
func Reason(err error) condition.Reason {
	code := Refusal(err)
	switch {
	case errors.Is(err, delivery.ErrFenced):
		return condition.FenceRefused
	case errors.Is(err, ErrStreamUnfit), code == codeStreamSealed:
		return condition.StreamUnfit
	case errors.Is(err, nats.ErrPermissionViolation), refusesLogin(err), errors.Is(err, delivery.ErrConfiguration):
		return condition.BrokerRefused
	case code == codeStreamNotFound, errors.Is(err, ErrStreamMissing), errors.Is(err, jetstream.ErrStreamNotFound):
		return condition.StreamMissing
	case code == CodeStreamFull:
		return condition.StreamFull
	case NoRoom(code):
		return condition.BrokerFull
	case errors.Is(err, ErrNotConnected), errors.Is(err, nats.ErrDisconnected), errors.Is(err, nats.ErrConnectionClosed):
		return condition.BrokerAway
	case code != 0, errors.Is(err, delivery.ErrOutage), errors.Is(err, delivery.ErrUnknown), errors.Is(err, nats.ErrNoResponders):
		return condition.StreamAway
	}
	return ""
}

// ErrNotConnected means that the client looked for a server instead of sending.
var ErrNotConnected = errors.New("not connected to NATS")

// Plainly puts the client's words for a missing connection into plain ones: without a reconnect buffer, the client says that a buffer is
// full. A refused login is named.
func Plainly(nc *nats.Conn, err error) error {
	if !errors.Is(err, nats.ErrReconnectBufExceeded) && !errors.Is(err, nats.ErrConnectionReconnecting) {
		return err
	}
	if last := nc.LastError(); refusesLogin(last) {
		return fmt.Errorf("%w: %w", ErrNotConnected, last)
	}
	return notConnectedError{err}
}

// notConnectedError is ErrNotConnected, and wraps the client's error.
type notConnectedError struct{ said error }

func (notConnectedError) Error() string     { return ErrNotConnected.Error() }
func (e notConnectedError) Unwrap() []error { return []error{ErrNotConnected, e.said} }

// Permission returns a refusal of permission that came since the error before: it comes by itself, and the refused request has no answer.
// A purge's refusal concerns the purge alone, one of hearing answers every request.
func Permission(nc *nats.Conn, before error, operation string) error {
	e := nc.LastError()
	//nolint:errorlint // identity is meant: each refusal is an error of its own
	if !errors.Is(e, nats.ErrPermissionViolation) || e == before && !strings.Contains(e.Error(), `for Subscription to "`+cmp.Or(nc.Opts.InboxPrefix, "_INBOX")+`.`) ||
		strings.Contains(e.Error(), "."+operationPurge+".") != (operation == operationPurge) {
		return nil
	}
	return e
}

// refusesLogin reports whether the server refuses the name, the token or the key.
func refusesLogin(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAuthRevoked) ||
		errors.Is(err, nats.ErrAccountAuthExpired)
}

// Refusal returns the JetStream code of an error, 0 for other errors.
func Refusal(err error) int {
	var e *APIError
	if errors.As(err, &e) {
		return e.ErrCode
	}
	return 0
}
