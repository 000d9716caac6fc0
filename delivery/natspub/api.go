package natspub

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

// api asks the leader of one stream. The library's own read of a last message is
// not used: where a stream allows direct gets it may be answered by a follower
// that lags behind.
type api struct {
	nc             *nats.Conn
	prefix, stream string
	patience       *patience
}

func newAPI(nc *nats.Conn, prefix, stream string, ackTimeout time.Duration) api {
	return api{nc, prefix, stream, &patience{most: ackTimeout}}
}

// ownAPI is under what JetStream answers where it is the account's own, in the server that a client is connected to.
const ownAPI = "$JS.API"

// JetStream makes a client of JetStream under a prefix of its subjects, as StreamConfig has it.
func JetStream(nc *nats.Conn, apiPrefix string) (jetstream.JetStream, error) {
	js, err := jetstream.NewWithAPIPrefix(nc, cmp.Or(apiPrefix, ownAPI))
	if err != nil {
		return nil, fmt.Errorf("JetStream client: %w", err)
	}
	return js, nil
}

// codeNoMessage is the answer when nothing is stored on a subject.
const codeNoMessage = 10037

// storedMessage is a message of the stream; sequence 0: there is none.
type storedMessage struct {
	sequence uint64
	at       time.Time
	header   nats.Header
	body     []byte
}

// last returns the last message on a literal subject.
func (a api) last(ctx context.Context, subject string) (storedMessage, error) {
	return a.get(ctx, map[string]any{"last_by_subj": subject})
}

// next returns the first message at or behind a position whose subject matches.
func (a api) next(ctx context.Context, filter string, from uint64) (storedMessage, error) {
	return a.get(ctx, map[string]any{"seq": from, "next_by_subj": filter})
}

func (a api) get(ctx context.Context, which map[string]any) (storedMessage, error) {
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
		return storedMessage{}, err
	case reply.Error != nil && reply.Error.ErrCode == codeNoMessage:
		return storedMessage{}, nil
	case reply.Error != nil:
		return storedMessage{}, a.refused(reply.Error)
	}
	header, _ := nats.DecodeHeadersMsg(reply.Message.Headers) // what others wrote may be unreadable: clients give such a message none
	return storedMessage{sequence: reply.Message.Sequence, at: reply.Message.At, header: header, body: reply.Message.Data}, nil
}

// held returns how many messages the stream holds on each subject under a filter.
func (a api) held(ctx context.Context, filter string) (map[string]uint64, error) {
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

// purge removes the messages of a literal subject that lie before a position, or all but the last ones: one of the two is
// above 0. It returns how many went. Where nobody may, the error wraps ErrConfiguration.
func (a api) purge(ctx context.Context, subject string, before, keep uint64) (purged uint64, err error) {
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

// info returns what the stream holds, and its settings.
func (a api) info(ctx context.Context) (jetstream.StreamInfo, error) {
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

// ask is a request that is made again where it is not answered: the server that took it may have gone.
func (a api) ask(ctx context.Context, operation string, body, reply any) error {
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

func (a api) request(ctx context.Context, operation string, body, reply any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("%s: %w", operation, err)
	}
	before := a.nc.LastError()
	msg, err := a.nc.RequestWithContext(ctx, cmp.Or(a.prefix, ownAPI)+"."+operation+"."+a.stream, data)
	if err != nil {
		return fmt.Errorf("%w: %s of stream %s: %w", delivery.ErrOutage, operation, a.stream, cmp.Or(permission(a.nc, before, operation), plainly(a.nc, err)))
	}
	if err := json.Unmarshal(msg.Data, reply); err != nil {
		return fmt.Errorf("%w: malformed answer to %s: %w", delivery.ErrOutage, operation, err)
	}
	return nil
}

// refused classes what the API says no to. A stream that is missing now was there
// at the start: it may come back, so it is an outage.
func (a api) refused(e *APIError) error {
	return fmt.Errorf("%w: stream %s: %w", delivery.ErrOutage, a.stream, e)
}

// refusal returns the JetStream code of an error, 0 for other errors.
func refusal(err error) int {
	var e *APIError
	if errors.As(err, &e) {
		return e.ErrCode
	}
	return 0
}
