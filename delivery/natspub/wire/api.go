package wire

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery"
)

// StreamAPI asks the leader of one stream. Its errors wrap delivery.ErrOutage where nothing else is said. The library's own read of a
// last message is not used: where a stream allows direct gets, a lagging follower may answer it.
type StreamAPI struct {
	nc             *nats.Conn
	prefix, stream string
	patience       *patience
}

// NewStreamAPI asks under a prefix, "$JS.API" if it is empty. An answer is awaited for a second at first, at most for ackTimeout.
func NewStreamAPI(nc *nats.Conn, prefix, stream string, ackTimeout time.Duration) StreamAPI {
	return StreamAPI{nc, prefix, stream, &patience{most: ackTimeout}}
}

// OwnAPI is the prefix of the account's own JetStream, in the server that a client is connected to.
const OwnAPI = "$JS.API"

// codeNoMessage is the answer when nothing is stored on a subject.
const codeNoMessage = 10037

// RawMessage is a message of the stream; Sequence 0: there is none.
type RawMessage struct {
	Sequence uint64
	At       time.Time
	Header   nats.Header
	Body     []byte
}

// Last returns the last message on a literal subject.
func (a StreamAPI) Last(ctx context.Context, subject string) (RawMessage, error) {
	return a.get(ctx, map[string]any{"last_by_subj": subject})
}

// Next returns the first message at or behind a position whose subject matches.
func (a StreamAPI) Next(ctx context.Context, filter string, from uint64) (RawMessage, error) {
	return a.get(ctx, map[string]any{"seq": from, "next_by_subj": filter})
}

// At returns the message at a position.
func (a StreamAPI) At(ctx context.Context, position uint64) (RawMessage, error) {
	return a.get(ctx, map[string]any{"seq": position})
}

func (a StreamAPI) get(ctx context.Context, which map[string]any) (RawMessage, error) {
	var reply struct {
		Error   *APIError `json:"error"`
		Message struct {
			Sequence uint64    `json:"seq"`
			At       time.Time `json:"time"`
			Headers  []byte    `json:"hdrs"`
			Data     []byte    `json:"data"`
		} `json:"message"`
	}
	err := a.ask(ctx, "STREAM.MSG.GET", which, &reply)
	switch {
	case err != nil:
		return RawMessage{}, err
	case reply.Error != nil && reply.Error.ErrCode == codeNoMessage:
		return RawMessage{}, nil
	case reply.Error != nil:
		return RawMessage{}, a.refused(reply.Error)
	}
	header, _ := nats.DecodeHeadersMsg(reply.Message.Headers) // others' headers may be unreadable: clients give such a message none
	return RawMessage{Sequence: reply.Message.Sequence, At: reply.Message.At, Header: header, Body: reply.Message.Data}, nil
}

// Held returns how many messages the stream holds on each subject under a filter.
func (a StreamAPI) Held(ctx context.Context, filter string) (map[string]uint64, error) {
	var reply struct {
		Error *APIError `json:"error"`
		State struct {
			Subjects map[string]uint64 `json:"subjects"`
		} `json:"state"`
	}
	err := a.request(ctx, "STREAM.INFO", map[string]any{"subjects_filter": filter}, &reply)
	if err == nil && reply.Error != nil {
		err = a.refused(reply.Error)
	}
	return reply.State.Subjects, err
}

const operationPurge = "STREAM.PURGE"

// Purge removes the messages of a literal subject that lie before a position, or all but the last keep: one of the two is above 0. It
// returns their number. Without permission the error wraps ErrConfiguration.
func (a StreamAPI) Purge(ctx context.Context, subject string, before, keep uint64) (purged uint64, err error) {
	which := map[string]any{"filter": subject, "keep": keep}
	if keep == 0 {
		if before <= 1 { // nothing lies before it, and older servers would take it for all
			return 0, nil
		}
		which = map[string]any{"filter": subject, "seq": before}
	}
	var reply struct {
		Error  *APIError `json:"error"`
		Purged uint64    `json:"purged"`
	}
	err = a.request(ctx, operationPurge, which, &reply)
	switch {
	case errors.Is(err, nats.ErrPermissionViolation):
		err = fmt.Errorf("%w: %w", delivery.ErrConfiguration, err)
	case err != nil || reply.Error == nil:
	case reply.Error.ErrCode == codePurgeFailed || reply.Error.ErrCode == codeStreamSealed:
		err = fmt.Errorf("%w: stream %s: %w", delivery.ErrConfiguration, a.stream, reply.Error)
	default:
		err = a.refused(reply.Error)
	}
	return reply.Purged, err
}

// Info returns the stream's state and settings.
func (a StreamAPI) Info(ctx context.Context) (jetstream.StreamInfo, error) {
	var reply struct {
		Error *APIError `json:"error"`
		jetstream.StreamInfo
	}
	err := a.request(ctx, "STREAM.INFO", map[string]any{}, &reply)
	if err == nil && reply.Error != nil {
		err = a.refused(reply.Error)
	}
	return reply.StreamInfo, err
}

// ask makes a request again until it is answered: the server that took it may have gone.
func (a StreamAPI) ask(ctx context.Context, operation string, body, reply any) error {
	for {
		began, patience := time.Now(), a.patience.now()
		once, cancel := context.WithTimeout(ctx, patience)
		err := a.request(once, operation, body, reply)
		cancel()
		switch {
		case err == nil:
			a.patience.answered(time.Since(began))
			return nil
		case !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil:
			return err
		}
		a.patience.unanswered(patience)
	}
}

func (a StreamAPI) request(ctx context.Context, operation string, body, reply any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("%s: %w", operation, err)
	}
	before := a.nc.LastError()
	msg, err := a.nc.RequestWithContext(ctx, cmp.Or(a.prefix, OwnAPI)+"."+operation+"."+a.stream, data)
	if err != nil {
		return fmt.Errorf("%w: %s of stream %s: %w", delivery.ErrOutage, operation, a.stream, cmp.Or(Permission(a.nc, before, operation), Plainly(a.nc, err)))
	}
	if err := json.Unmarshal(msg.Data, reply); err != nil {
		return fmt.Errorf("%w: malformed answer to %s: %w", delivery.ErrOutage, operation, err)
	}
	return nil
}

// refused classes the API's refusals. A stream that is missing now was there at the start: it may come back, so it is an outage.
func (a StreamAPI) refused(e *APIError) error {
	return fmt.Errorf("%w: stream %s: %w", delivery.ErrOutage, a.stream, e)
}
