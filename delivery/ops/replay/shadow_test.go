package replay_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/natspub"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/delivery/ops/replay"
	"github.com/postrider/postrider/delivery/shape"
	"github.com/postrider/postrider/internal/testkit/natstest"
)

// cutShort ends the run when messages are stored and nothing has noted it yet.
type cutShort struct {
	*natspub.Shadow
	end context.CancelFunc
}

func (c cutShort) Publish(ctx context.Context, messages []delivery.Message) []delivery.Outcome {
	defer c.end()
	return c.Shadow.Publish(ctx, messages)
}

// A step that stored its messages and did not come to note it is not repeated,
// although the stream's duplicate window has long passed. Another replay under the
// same prefix is another one.
func TestAShadowAsksTheStreamWhatItHolds(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	b.appendMany(t, 100)
	b.publish(t, "true")
	server := natstest.Start(t, 1)
	nc, err := wire.Connect(server.URL(), "test", slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	const window = 100 * time.Millisecond
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "REPLAYS", Subjects: []string{"replay.>"}, Duplicates: window})
	if err != nil {
		t.Fatal(err)
	}
	events := b.reader(t)
	spec := replay.Spec{Destination: replay.Shadow, Prefix: "replay.fixed", Stream: "REPLAYS", Selection: replay.Selection{All: true}}
	j := b.create(t, spec)
	publisher, err := natspub.NewShadow(nc, natspub.ShadowConfig{Prefix: j.Prefix, Stream: "REPLAYS"})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := b.store.Run(ctx, j.ID, replay.RunConfig{BatchSize: 20, Publisher: cutShort{publisher, cancel}, Events: events})
		cancel()
		if err == nil {
			t.Fatal("the run was not cut short")
		}
		<-time.After(3 * window)
	}
	for want := uint64(95); want <= 190; want += 95 {
		j = b.run(t, j.ID, replay.RunConfig{BatchSize: 30, Publisher: publisher, Events: events})
		info, err := stream.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if j.Replayed != 95 || info.State.Msgs != want {
			t.Errorf("replayed %d, the stream holds %d messages, want 95 and %d", j.Replayed, info.State.Msgs, want)
		}
		j = b.create(t, spec)
	}
}

// A stream that was made anew while a replay was under way, or laid aside, lacks what that has noted: it does not end as if all were there.
func TestAShadowsStreamIsMadeAnew(t *testing.T) {
	t.Parallel()
	for name, aside := range map[string]bool{"under way": false, "laid aside": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, 2)
			b.appendMany(t, 100)
			b.publish(t, "true")
			server := natstest.Start(t, 1)
			js := server.JetStream(t)
			config := jetstream.StreamConfig{Name: "REPLAYS", Subjects: []string{"replay.>"}}
			if _, err := js.CreateStream(t.Context(), config); err != nil {
				t.Fatal(err)
			}
			j := b.create(t, replay.Spec{Destination: replay.Shadow, Prefix: "replay.fixed", Stream: "REPLAYS", Selection: replay.Selection{All: true}})
			publisher, err := natspub.NewShadow(js.Conn(), natspub.ShadowConfig{Prefix: j.Prefix, Stream: "REPLAYS"})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			anew := func(now replay.Job) {
				if now.Replayed < 20 || now.Replayed > 30 { // once
					return
				}
				err := js.DeleteStream(ctx, "REPLAYS")
				if err == nil {
					_, err = js.CreateStream(ctx, config)
				}
				if err != nil {
					t.Error(err)
				}
				if aside {
					cancel()
				}
			}
			run := replay.RunConfig{BatchSize: 20, Publisher: publisher, Events: b.reader(t), Progress: anew}
			_, err = b.store.Run(ctx, j.ID, run)
			if aside {
				run.Progress = nil
				_, err = b.store.Run(t.Context(), j.ID, run)
			}
			if !errors.Is(err, delivery.ErrStreamForgot) {
				t.Errorf("it ended with %v", err)
			}
			if j, err := b.store.Get(t.Context(), j.ID); err != nil || j.State != replay.Paused {
				t.Errorf("the replay is %+v, %v", j, err)
			}
		})
	}
}

// filled is a stream that holds much: it is looked at piece by piece, and of this replay it holds the first and the last of ten events.
type filled struct {
	taker
	looked func()
	sent   *[]int64
}

func (f filled) Stored(_ context.Context, after uint64, _ int) (map[int64]uint64, uint64, error) {
	f.looked()
	switch after {
	case 0:
		return map[int64]uint64{1: 40}, 5000, nil
	case 5000:
		return nil, 9000, nil
	}
	return map[int64]uint64{10: 9500}, 0, nil
}

func (f filled) Publish(ctx context.Context, messages []delivery.Message) []delivery.Outcome {
	for _, m := range messages {
		*f.sent = append(*f.sent, m.Sequence)
	}
	return f.taker.Publish(ctx, messages)
}

// Who looks for long at what others left under the prefix says so meanwhile: it is not taken for dead.
func TestAShadowThatLooksForLongSaysSo(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.appendMany(t, 10)
	b.publish(t, "true")
	j := b.create(t, replay.Spec{Destination: replay.Shadow, Stream: "REPLAYS", Selection: replay.Selection{All: true}})
	var said []string
	var sent []int64
	looked := func() {
		now, err := b.store.Get(t.Context(), j.ID)
		if err != nil {
			t.Error(err)
		}
		said = append(said, now.WaitingFor)
	}
	j = b.run(t, j.ID, replay.RunConfig{Publisher: filled{looked: looked, sent: &sent}, Events: b.reader(t)})
	if j.State != replay.Done || j.Replayed != 10 || !slices.Equal(sent, []int64{2, 3, 4, 5, 6, 7, 8, 9}) {
		t.Errorf("%+v, sent %v", j, sent)
	}
	const looks = "it looks what the stream holds of it"
	if !slices.Equal(said, []string{"", looks, looks}) {
		t.Errorf("while it looked it said %q", said)
	}
}

// What a transform says of a failure may hold anything, and as much as it likes: the replay goes on past the event.
func TestAFailureOfATransformIsNotedWhateverItSays(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.appendMany(t, 10)
	b.publish(t, "true")
	j := b.create(t, replay.Spec{Destination: replay.Shadow, Stream: "REPLAYS", Selection: replay.Selection{All: true}})
	events := b.reader(t, func(_ context.Context, d *shape.Draft) error {
		if d.Sequence == 3 {
			return errors.New("bad\x00value \xff" + strings.Repeat("x", 1<<20))
		}
		return nil
	})
	j = b.run(t, j.ID, replay.RunConfig{Publisher: taker{}, Events: events})
	if j.State != replay.Done || j.Replayed != 9 || j.Failed != 1 || len(j.LastError) > 1000 || !strings.Contains(j.LastError, "bad value") {
		t.Errorf("%+v", j)
	}
}

// taker takes everything.
type taker struct{}

func (taker) Stored(context.Context, uint64, int) (map[int64]uint64, uint64, error) {
	return nil, 0, nil
}

func (taker) Publish(_ context.Context, messages []delivery.Message) []delivery.Outcome {
	outcomes := make([]delivery.Outcome, len(messages))
	for i, m := range messages {
		outcomes[i] = delivery.Outcome{Kind: delivery.Published, StreamSequence: uint64(m.Sequence)}
	}
	return outcomes
}
