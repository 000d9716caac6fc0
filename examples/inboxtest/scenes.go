package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/postrider/postrider/message"
)

// scenes are all plays by their names.
var scenes = map[string]func(context.Context, *scene) error{
	"repeat": repeat, "late": late, "gap": gap, "kill-before-commit": killBeforeCommit, "kill-before-ack": killBeforeAck,
	"resize": resize, "conflict": conflict, "failing": failing, "poison": poison, "two-at-once": twoAtOnce, "replay": replay,
}

func (s *scene) events(stream string, versions ...int64) (list []message.Message) {
	for _, v := range versions {
		list = append(list, s.event(stream, v))
	}
	return list
}

func repeat(ctx context.Context, s *scene) error {
	return errors.Join(s.bring(ctx, s.events("a", 1, 2, 1, 2, 2, 3)...), s.want(ctx, "a", 1, 2, 3))
}

func late(ctx context.Context, s *scene) error {
	return errors.Join(s.bring(ctx, s.events("a", 1, 3, 2, 4)...), s.want(ctx, "a", 1, 3, 4))
}

func gap(ctx context.Context, s *scene) error {
	return errors.Join(s.bring(ctx, s.events("a", 2, 5, 6)...), s.want(ctx, "a", 2, 5, 6))
}

// stopped brings a message of which the effect is held, and returns when its session waits there.
func (s *scene) stopped(ctx context.Context, c *child, r request) error {
	if err := c.send(r); err != nil {
		return err
	}
	err := s.until(ctx, func(ctx context.Context) (bool, error) {
		sessions, err := s.waiting(ctx)
		return len(sessions) > 0, err
	})
	if err != nil {
		return fmt.Errorf("the effect is not made: %w", err)
	}
	return nil
}

// killBeforeCommit kills the consumer between effect and commit. The message comes again unless it was acknowledged already.
func killBeforeCommit(ctx context.Context, s *scene) error {
	if err := s.bring(ctx, s.event("a", 1)); err != nil {
		return err
	}
	m := s.event("a", 2)
	release, err := s.hold(ctx, m.EventID)
	if err != nil {
		return err
	}
	defer func() { _ = release() }() // the way out after an error
	r := s.request(m)
	if err := s.stopped(ctx, s.first, r); err != nil {
		return err
	}
	acked := s.first.kill()
	s.first = nil
	sessions, err := s.waiting(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(s.end(ctx, sessions), release()); err != nil {
		return err
	}
	if !slices.Contains(acked, r.ID) {
		if err := s.insist(ctx, r); err != nil {
			return err
		}
	}
	return errors.Join(s.bring(ctx, s.event("a", 3)), s.want(ctx, "a", 1, 2, 3))
}

// killBeforeAck kills it after the commit; the acknowledgement is lost.
func killBeforeAck(ctx context.Context, s *scene) error {
	if err := s.bring(ctx, s.event("a", 1)); err != nil {
		return err
	}
	m := s.event("a", 2)
	if err := s.first.send(s.request(m)); err != nil {
		return err
	}
	err := s.until(ctx, func(ctx context.Context) (bool, error) {
		effects, err := s.effects(ctx, m.Stream)
		return len(effects) == 2, err
	})
	if err != nil {
		return err
	}
	s.first.kill()
	s.first = nil
	return errors.Join(s.bring(ctx, s.events("a", 2, 1, 3)...), s.want(ctx, "a", 1, 2, 3))
}

// resize moves streams between partitions, whose sequences begin lower in the next generation.
func resize(ctx context.Context, s *scene) error {
	moved := func(stream string, version int64, partition int, sequence int64) message.Message {
		m := s.event(stream, version)
		m.Generation, m.Partition, m.Sequence = 1, partition, sequence
		return m
	}
	before := s.event("b", 1)
	before.Sequence = 250
	return errors.Join(
		s.bring(ctx, append(s.events("a", 1, 2), before)...),
		s.bring(ctx, moved("a", 3, 9, 20), moved("b", 2, 3, 21), moved("c", 1, 3, 22), moved("a", 4, 9, 23)),
		s.want(ctx, "a", 1, 2, 3, 4), s.want(ctx, "b", 1, 2), s.want(ctx, "c", 1),
	)
}

// conflict is a database that forgot published events and uses their versions again: nothing of the stream runs until a
// person decides.
func conflict(ctx context.Context, s *scene) error {
	other := func(version int64) message.Message {
		m := s.event("a", version)
		m.EventID, m.Generation = uuid.New(), 1
		return m
	}
	return errors.Join(
		s.bring(ctx, s.events("a", 1, 2)...), s.bring(ctx, other(2), other(3), s.event("b", 1)), s.retry(ctx),
		s.want(ctx, "a", 1, 2), s.want(ctx, "b", 1),
	)
}

// failing is an effect that fails for a while: its stream waits, in order, and no other does.
func failing(ctx context.Context, s *scene) error {
	bad := s.event("a", 2).EventID
	if err := s.fail(ctx, bad, true); err != nil {
		return err
	}
	if err := errors.Join(s.bring(ctx, s.events("a", 1, 2, 3)...), s.bring(ctx, s.events("b", 1, 2)...)); err != nil {
		return err
	}
	if err := errors.Join(s.retry(ctx), s.want(ctx, "a", 1), s.want(ctx, "b", 1, 2), s.fail(ctx, bad, false)); err != nil {
		return err
	}
	return errors.Join(s.retryUntil(ctx, "a", 1, 2, 3), s.bring(ctx, s.events("a", 2, 4)...), s.want(ctx, "a", 1, 2, 3, 4))
}

// poison is an effect that always fails, and a message that nobody can read: both are laid aside, and the rest goes on.
func poison(ctx context.Context, s *scene) error {
	if err := s.fail(ctx, s.event("a", 1).EventID, true); err != nil {
		return err
	}
	malformed := s.request(s.event("x", 1))
	malformed.Headers = map[string]string{"Content-Type": "text/plain"}
	if err := errors.Join(s.bring(ctx, s.events("a", 1, 2)...), s.insist(ctx, malformed), s.bring(ctx, s.event("b", 1))); err != nil {
		return err
	}
	for range 10 {
		if err := s.retry(ctx); err != nil {
			return err
		}
	}
	return errors.Join(s.bring(ctx, s.event("b", 2)), s.want(ctx, "a"), s.want(ctx, "b", 1, 2), s.want(ctx, "x"))
}

// twoAtOnce brings a message to two processes, the second time while the first is in its effect.
func twoAtOnce(ctx context.Context, s *scene) error {
	if err := s.bring(ctx, s.event("a", 1)); err != nil {
		return err
	}
	second, err := s.another(ctx)
	if err != nil {
		return err
	}
	m := s.event("a", 2)
	release, err := s.hold(ctx, m.EventID)
	if err != nil {
		return err
	}
	defer func() { _ = release() }()
	r := s.request(m)
	if err := errors.Join(s.stopped(ctx, s.first, r), second.send(r)); err != nil {
		return err
	}
	err = s.until(ctx, func(ctx context.Context) (bool, error) {
		sessions, err := s.waiting(ctx)
		return len(sessions) > 1 || len(second.answers) > 0, err // it waits too, or has said something
	})
	if err := errors.Join(err, release()); err != nil {
		return err
	}
	for _, c := range []*child{s.first, second} {
		if _, err := c.wait(ctx, r.ID); err != nil {
			return err
		}
	}
	return errors.Join(s.bring(ctx, s.events("a", 2, 3)...), s.want(ctx, "a", 1, 2, 3))
}

// replay publishes events again under a higher generation.
func replay(ctx context.Context, s *scene) error {
	again := s.events("a", 1, 2, 3)
	for n := range again {
		again[n].Generation = 100
	}
	return errors.Join(s.bring(ctx, s.events("a", 1, 2, 3)...), s.bring(ctx, again...), s.bring(ctx, s.event("a", 4)), s.want(ctx, "a", 1, 2, 3, 4))
}
