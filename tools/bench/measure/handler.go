package measure

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/message"
)

// System is a way from a transaction to a handler, which scenario "latency" measures: module tools/peers has them.
type System struct {
	// Name includes version and settings. Required.
	Name string
	// Part is the argument of the hidden command that runs its handler, by ServeHandler. Required without Command.
	Part string
	// Command is another program that serves as ServeHandler does. Defaults to none.
	Command []string
	// Create makes its tables in an empty database. Required.
	Create func(ctx context.Context, database string) error
	// Producer returns the Insert of a round; it is called once a round. Required.
	Producer func() (Insert, error)
}

// Insert puts an event into a transaction that others begin and commit.
type Insert func(ctx context.Context, tx pgx.Tx, e PeerEvent) error

// Handler notes, in the receiving process, the time of each event.
type Handler struct {
	p    *part
	stop context.CancelFunc

	mu       sync.Mutex
	received []receipt
	seen     map[uuid.UUID]struct{}
	goal     int           // number of distinct events; 0 while nobody waits
	reached  chan struct{} // closed at the goal
}

// receipt is a received event, with its Unix time in nanoseconds.
type receipt struct {
	ID uuid.UUID `json:"id"`
	At int64     `json:"at"`
}

// The lines that a handler reads, and answers.
type (
	handlerTask struct {
		Expect int `json:"expect"` // distinct events
	}
	handlerReport struct {
		Received []receipt `json:"received"`
	}
)

// ServeHandler serves in the process of a system's handler: run connects, calls Ready when it receives, and works until its context
// ends. Lines of input ask the process to report when it has received so many events, or receives no more.
func ServeHandler(ctx context.Context, input io.Reader, output io.Writer, run func(ctx context.Context, s PeerSettings, h *Handler) error) error {
	p := &part{input: bufio.NewReader(input), output: json.NewEncoder(output), log: slog.New(slog.DiscardHandler)}
	var s PeerSettings
	if err := p.settings(&s); err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	return run(working, s, &Handler{p: p, stop: stop, seen: map[uuid.UUID]struct{}{}})
}

// Ready reports that the handler receives from now on.
func (h *Handler) Ready(ctx context.Context) error {
	if err := h.p.answer(nullAnswer{Ready: true}); err != nil {
		return err
	}
	go func() {
		defer h.stop()
		for {
			var task handlerTask
			if h.p.settings(&task) != nil {
				return // the end of input
			}
			h.wait(ctx, task.Expect)
			h.mu.Lock()
			report := handlerReport{h.received}
			h.mu.Unlock()
			if h.p.answer(report) != nil {
				return
			}
		}
	}()
	return nil
}

// Receive notes the receipt of an event now. It is safe for concurrent use.
func (h *Handler) Receive(id uuid.UUID) {
	at := time.Now().UnixNano()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.received = append(h.received, receipt{id, at})
	h.seen[id] = struct{}{}
	if h.goal > 0 && len(h.seen) >= h.goal {
		close(h.reached)
		h.goal = 0
	}
}

// wait waits until so many events were received, or none for a while.
func (h *Handler) wait(ctx context.Context, goal int) {
	h.mu.Lock()
	if len(h.seen) >= goal {
		h.mu.Unlock()
		return
	}
	h.goal, h.reached = goal, make(chan struct{})
	reached, before := h.reached, len(h.received)
	h.mu.Unlock()
	for {
		stalled := time.NewTimer(stallPatience / 2)
		select {
		case <-reached:
		case <-ctx.Done():
		case <-stalled.C:
			h.mu.Lock()
			now := len(h.received)
			h.mu.Unlock()
			if now > before {
				before = now
				continue
			}
		}
		stalled.Stop()
		return
	}
}

// startHandler starts the process of a system's handler and returns when it receives.
func (b *Bench) startHandler(ctx context.Context, s System, settings PeerSettings) (*child, error) {
	var handler *child
	var err error
	if len(s.Command) == 0 {
		handler, err = b.part(s.Part, settings)
	} else if handler, err = b.launch(s.Command[0], s.Name, nil, true, s.Command[1:]...); err == nil {
		if err = handler.send(settings); err != nil {
			err = errors.Join(err, handler.stop())
		}
	}
	if err != nil {
		return nil, err
	}
	patient, cancel := context.WithTimeoutCause(ctx, readyPatience, errors.New("the handler is not ready in time"))
	defer cancel()
	var ready nullAnswer
	if err := handler.receive(patient, &ready); err != nil {
		return nil, errors.Join(err, handler.stop())
	}
	return handler, nil
}

// runSubscriber is the handler of the relay: an ordered consumer of the stream.
func runSubscriber(ctx context.Context, s PeerSettings, h *Handler) error {
	nc, err := nats.Connect(strings.Split(s.NATS, ",")[0])
	if err != nil {
		return fmt.Errorf("subscriber: %w", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("subscriber: %w", err)
	}
	consumer, err := js.OrderedConsumer(ctx, streamName, eventsFrom(1))
	if err != nil {
		return fmt.Errorf("subscriber: %w", err)
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(5000))
	if err != nil {
		return fmt.Errorf("subscriber: %w", err)
	}
	defer messages.Stop()
	defer context.AfterFunc(ctx, messages.Stop)()
	if err := h.Ready(ctx); err != nil {
		return err
	}
	for {
		msg, err := messages.Next()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, jetstream.ErrNoHeartbeat):
			continue // the iterator asks again
		case err != nil:
			return fmt.Errorf("subscriber: %w", err)
		}
		id, err := uuid.Parse(msg.Headers().Get(message.HeaderEventID))
		if err != nil {
			return fmt.Errorf("subscriber: event id: %w", err)
		}
		h.Receive(id)
	}
}
