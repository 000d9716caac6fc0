package streams_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/natspub/wire"
)

// Settings that disable or eat the fence are refused, naming setting and way out.
func TestStreamsThatCannotBeFencedAreRefused(t *testing.T) {
	t.Parallel()
	fit := jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>", "outbox.fence.>"}, AllowAtomicPublish: true, Discard: jetstream.DiscardNew}
	needs := streams.Needs{Subject: defaultSubject(t), Control: &streams.Control{}}
	if err := needs.Unmet(fit); err != nil {
		t.Error(err)
	}
	for setting, change := range map[string]func(*jetstream.StreamConfig){
		"retention Interest":          func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy },
		"discard old":                 func(c *jetstream.StreamConfig) { c.Discard, c.MaxBytes = jetstream.DiscardOld, 1<<30 },
		"max_age":                     func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		"persist_mode":                func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode },
		"subjects":                    func(c *jetstream.StreamConfig) { c.Subjects = c.Subjects[:1] },
		"subject transform":           func(c *jetstream.StreamConfig) { c.SubjectTransform = &jetstream.SubjectTransformConfig{} },
		"max_msgs_per_subject 1":      func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject, c.DiscardNewPerSubject = 1, true },
		"max_msgs_per_subject 100000": func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 100_000 },
	} {
		c := fit
		change(&c)
		err := needs.Unmet(c)
		if !errors.Is(err, wire.ErrStreamUnfit) || !strings.Contains(err.Error(), setting) {
			t.Errorf("%s: %v", setting, err)
		}
	}
	kept := fit
	kept.MaxAge, kept.AllowMsgTTL = time.Hour, true
	if err := needs.Unmet(kept); err != nil {
		t.Errorf("max_age with message TTLs: %v", err)
	}
}
