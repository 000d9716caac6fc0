package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/postrider/postrider/inbox/inboxtest"
	"github.com/postrider/postrider/message"
)

// scene is one play, with a consumer and streams of its own.
type scene struct {
	*stage
	name    string
	command []string
	run     string
	ids     int64
	first   *child // nil when it has ended
	all     []*child
}

// consumer is the name that the consumer under test gives to the inbox.
func (s *scene) consumer() string { return s.name + " " + s.run }

// event is a message of one of the scene's streams, as it was published first; the same arguments give the same event.
func (s *scene) event(stream string, version int64) message.Message {
	m := inboxtest.Event(s.stream(stream), version, "tested", []byte(`{"at": 1}`))
	m.Sequence, m.Partition = 100*version, 3
	return m
}

func (s *scene) stream(name string) string { return s.consumer() + " " + name }

// place is where the effect of an event of the scene is to be.
func (s *scene) place(stream string, version int64) place {
	return place{Version: version, Event: s.event(stream, version).EventID}
}

func (s *scene) request(m message.Message) request {
	s.ids++
	headers := map[string]string{
		message.HeaderEventID: m.EventID.String(), message.HeaderStream: m.Stream, message.HeaderType: m.Type,
		message.HeaderStreamVersion: strconv.FormatInt(m.Version, 10), message.HeaderSequence: strconv.FormatInt(m.Sequence, 10),
		message.HeaderPartition: strconv.Itoa(m.Partition),
	}
	if m.Generation > 0 {
		headers[message.HeaderGeneration] = strconv.Itoa(m.Generation)
	}
	return request{ID: s.ids, Subject: m.Subject, StreamSequence: uint64(s.ids), Headers: headers, Payload: m.Payload}
}

// another starts one more process of the consumer.
func (s *scene) another(ctx context.Context) (*child, error) {
	c, err := start(ctx, s.command, s.address, s.consumer())
	if err == nil {
		s.all = append(s.all, c)
	}
	return c, err
}

// process is the first process, started if it is not there.
func (s *scene) process(ctx context.Context) (_ *child, err error) {
	if s.first == nil {
		s.first, err = s.another(ctx)
	}
	return s.first, err
}

var errRefused = errors.New("the consumer wants it again")

// most is how often a message comes before a consumer that never acknowledges it is given up.
const most = 4

// bring brings a message until it is acknowledged.
func (s *scene) bring(ctx context.Context, messages ...message.Message) error {
	for _, m := range messages {
		if err := s.insist(ctx, s.request(m)); err != nil {
			return fmt.Errorf("version %d of %s: %w", m.Version, m.Stream, err)
		}
	}
	return nil
}

func (s *scene) insist(ctx context.Context, r request) error {
	var err error
	for range most {
		var c *child
		if c, err = s.process(ctx); err != nil {
			return err
		}
		if err = c.send(r); err != nil {
			return err
		}
		var ack bool
		switch ack, err = c.wait(ctx, r.ID); {
		case errors.Is(err, errEnded):
			s.first = nil
		case err != nil || ack:
			return err
		}
	}
	return fmt.Errorf("it came %d times and was never acknowledged: %w", most, cmp.Or(err, errRefused))
}

// retry lets the time pass, and has parked messages run that are due.
func (s *scene) retry(ctx context.Context) error {
	if err := s.due(ctx, s.consumer()); err != nil {
		return err
	}
	s.ids++
	return s.insist(ctx, request{ID: s.ids, Retry: true})
}

// want compares the effects of a stream.
func (s *scene) want(ctx context.Context, stream string, versions ...int64) error {
	got, err := s.effects(ctx, s.stream(stream))
	if err != nil {
		return err
	}
	var want []place
	for _, v := range versions {
		want = append(want, s.place(stream, v))
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("stream %s has the effects of versions %v, want %v", stream, got, want)
	}
	return nil
}

// retryUntil has messages tried again until the effects are those.
func (s *scene) retryUntil(ctx context.Context, stream string, versions ...int64) (err error) {
	for range 2 * len(versions) {
		if err := s.retry(ctx); err != nil {
			return err
		}
		if err = s.want(ctx, stream, versions...); err == nil {
			return nil
		}
	}
	return err
}

// play plays one scene.
func play(ctx context.Context, stage *stage, name string, command []string) error {
	s := &scene{stage: stage, name: name, command: command, run: uuid.NewString()[:8]}
	defer func() {
		for _, c := range s.all {
			c.end()
		}
	}()
	return scenes[name](ctx, s)
}
