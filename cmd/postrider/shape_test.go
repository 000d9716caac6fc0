package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/message/codec"
)

func TestWrongShapesAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]complaint{
		"no source":         {onRun("--cloudevents"), exitRefused, []string{"--cloudevents-source"}},
		"source alone":      {onRun("--cloudevents-source=/x"), exitRefused, []string{"--cloudevents-source", "--cloudevents"}},
		"source":            {onRun("--cloudevents", "--cloudevents-source=a b"), exitRefused, []string{"--cloudevents-source", `"a b"`}},
		"forwarded id":      {onRun("--cloudevents", "--cloudevents-source=/x", "--forward-header=ce-id"), exitRefused, []string{"--forward-header", "ce-id"}},
		"forwarded header":  {onRun("--forward-header=Nats-Rollup"), exitRefused, []string{"--forward-header", "Nats-Rollup"}},
		"encoding":          {onRun("--compress=brotli"), exitRefused, []string{"--compress", "zstd", "brotli"}},
		"size":              {onRun("--compress=zstd:much"), exitRefused, []string{"--compress", "zstd:much"}},
		"no size":           {onRun("--compress=zstd:"), exitRefused, []string{"--compress", "zstd:"}},
		"size of nothing":   {onRun("--compress=none:8KiB"), exitRefused, []string{"--compress", "none:8KiB"}},
		"too large a size":  {onRun("--compress=zstd:65MiB"), exitRefused, []string{"--compress", "65MiB"}},
		"encoding twice":    {onRun("--compress=gzip", "--forward-header=content-encoding"), exitRefused, []string{"--compress", "content-encoding"}},
		"pointer":           {onRun("--redact-pointer=email"), exitRefused, []string{"--redact-pointer", "email"}},
		"rename":            {onRun("--rename-type=a"), exitRefused, []string{"--rename-type", `"a"`}},
		"rename to nothing": {onRun("--rename-type=a="), exitRefused, []string{"--rename-type", `"a="`}},
		"rename twice":      {onRun("--rename-type=a=b", "--rename-type=a=c"), exitRefused, []string{"--rename-type", `"a"`}},
		"replay":            {[]string{"replay", "--all", "--compress=brotli"}, exitRefused, []string{"--compress", "brotli"}},
		"replay's rename":   {[]string{"replay", "--all", "--rename-type=a"}, exitRefused, []string{"--rename-type", `"a"`}},
		"resume's pointer":  {[]string{"replay", "resume", "7", "--redact-pointer=email"}, exitRefused, []string{"--redact-pointer", "email"}},
		"dev":               {[]string{"dev", "--cloudevents"}, exitRefused, []string{"--cloudevents-source"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.check(t)
		})
	}
}

func TestSettingsAreTheSameTextForTheSameMessages(t *testing.T) {
	t.Parallel()
	plain := shapeFlags{Headers: "standard", Compress: compressNone}
	if got := plain.settings(); got != plainShape {
		t.Errorf("nothing special is %q", got)
	}
	one, other := plain, plain
	one.RedactPointer, other.RedactPointer = []string{"/a", "/b"}, []string{"/b", "/a", "/b"}
	one.Compress, other.Compress = "zstd", "zstd:8192"
	if one.settings() != other.settings() {
		t.Errorf("%s and %s", one.settings(), other.settings())
	}
	seen := map[string]bool{}
	for _, change := range []func(*shapeFlags){
		func(*shapeFlags) {}, func(f *shapeFlags) { f.Headers = "full" }, func(f *shapeFlags) { f.Headers = "minimal" },
		func(f *shapeFlags) { f.ForwardHeader = []string{"a"} },
		func(f *shapeFlags) { f.Cloudevents, f.CloudeventsSource = true, "/a" }, func(f *shapeFlags) { f.RedactPointer = []string{"/a"} },
		func(f *shapeFlags) { f.RenameType = []string{"a=b"} },
		func(f *shapeFlags) { f.RenameType = []string{"a=b", "c=d"} }, func(f *shapeFlags) { f.RenameType = []string{`a=b" "c=d`} },
		func(f *shapeFlags) { f.Compress = "gzip" }, func(f *shapeFlags) { f.Compress = "gzip:1KiB" },
	} {
		f := plain
		change(&f)
		if text := f.settings(); seen[text] {
			t.Errorf("%s stands for two", text)
		} else {
			seen[text] = true
		}
	}
}

func TestTailShowsWhatWasCompressed(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, 1)
	server.Stream(t, 1)
	js := server.JetStream(t)
	body := fmt.Appendf(nil, `{"text":"%s"}`, bytes.Repeat([]byte("ab"), 1000))
	for i, encoding := range []string{"gzip", "br"} { // the second is a producer's own
		msg := &nats.Msg{Subject: "events.shop.paid", Data: body, Header: nats.Header{
			"Outbox-Event-Id": {uuid.NewString()}, "Outbox-Sequence": {fmt.Sprint(i + 1)}, "Outbox-Partition": {"0"}, "Outbox-Stream": {"s"},
			"Outbox-Stream-Version": {fmt.Sprint(i + 1)}, "Outbox-Type": {"paid"}, codec.Header: {encoding},
		}}
		if encoding == "gzip" {
			c, err := codec.NewCompressor(codec.Gzip, 0)
			if err != nil {
				t.Fatal(err)
			}
			msg.Data, _ = c.Compress(body)
		}
		if _, err := js.PublishMsg(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
	}
	var out, stderr bytes.Buffer
	if code := run(t.Context(), []string{"tail", "--nats-url=" + server.URL(), "--all", "--payload", "--json", "--limit=2"}, &out, &stderr); code != exitOK {
		t.Fatalf("tail ended with %d: %s", code, stderr.String())
	}
	if n := bytes.Count(out.Bytes(), body); n != 2 {
		t.Errorf("the payload is shown %d times, want 2:\n%s%s", n, out.String(), stderr.String())
	}
}

// Everything that shapes a message at once, on real events: the checker of dev compares each payload with what the rules make of it.
func TestDevShapesMessages(t *testing.T) { //nolint:paralleltest // fills the machine
	devDrained(t, "--cloudevents", "--cloudevents-source=/history", "--compress=zstd:200",
		"--redact-pointer=/commit", "--redact-pointer=file.modified=/parent", "--rename-type=file.modified=file.changed")
}

// Workers are killed in the middle of it: every message is stored as the first worker that saw the event would have stored it, and the
// subscriber, who takes the compression off, gets what was committed.
func TestShapedMessagesSurviveKills(t *testing.T) { //nolint:paralleltest // clusters run one at a time
	eachWay(t, func(t *testing.T, noBatches bool) {
		t.Helper()
		for _, replicas := range []int{1, 3} {
			t.Run(fmt.Sprintf("R%d", replicas), func(t *testing.T) {
				c := clustertest.New(t, clustertest.Config{
					Partitions: 8, NATS: natstest.Start(t, replicas), Replicas: replicas, NoBatches: noBatches, Flags: append(shortTTL(),
						"--cloudevents", "--cloudevents-source=/shop", "--compress=zstd:0"),
				})
				s := c.Subscribe(t, nil)
				workers := c.Start(t, 2)
				c.WaitShared(t, workers...)
				load := c.Produce(t, clustertest.Load{Every: 2 * time.Millisecond})
				for i := range 2 {
					s.WaitReceived(t, 300)
					workers[i].Signal(t, syscall.SIGKILL)
					workers = append(workers, c.Start(t, 1)...)
				}
				load.WaitCommitted(t, 300)
				c.Verify(t)
				wantCompressed(t, c)
			})
		}
	})
}

// wantCompressed wants every event of the stream to be what this process would have made of it.
func wantCompressed(t *testing.T, c *clustertest.Cluster) {
	t.Helper()
	own, err := codec.NewCompressor(codec.Zstd, 0)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := c.NATS.JetStream(t).Stream(t.Context(), natstest.StreamName)
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := stream.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{FilterSubjects: []string{"events.>"}})
	if err != nil {
		t.Fatal(err)
	}
	info, err := consumer.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	messages, err := consumer.Messages(jetstream.PullHeartbeat(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer messages.Stop()
	compressed := 0
	for range info.NumPending {
		msg, err := messages.Next(jetstream.NextMaxWait(clustertest.Patience))
		if err != nil {
			t.Fatal(err)
		}
		body, err := codec.Body(msg.Headers(), msg.Data(), 0)
		if err != nil || !json.Valid(body) {
			t.Fatalf("%v: %v", msg.Headers(), err)
		}
		again, did := own.Compress(body)
		if !bytes.Equal(again, msg.Data()) || did != (msg.Headers().Get(codec.Header) == "zstd") {
			t.Errorf("event %s was compressed to other bytes", msg.Headers().Get("Outbox-Event-Id"))
		}
		if did {
			compressed++
		}
		if h := msg.Headers(); h.Get("ce-id") != h.Get("Outbox-Event-Id") || h.Get("ce-source") != "/shop" {
			t.Errorf("headers %v", h)
		}
	}
	if compressed == 0 {
		t.Error("nothing was compressed: the test proves nothing")
	}
	t.Logf("%d of %d messages were compressed", compressed, info.NumPending)
}
