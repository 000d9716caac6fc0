package natspub

import (
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery"
)

// PublishMode is how messages are published.
type PublishMode string

// The modes.
const (
	// PublishAuto is PublishFenced where server and stream take atomic batches, else PublishDedupe.
	PublishAuto   PublishMode = "auto"
	PublishFenced PublishMode = "fenced"
	PublishDedupe PublishMode = "dedupe"
)

// On decides between the modes: fenced or dedupe. A stream on which fenced would not keep its promise is ErrStreamUnfit, and ErrConfig
// where fenced was asked for and the stream takes no batches.
func (m PublishMode) On(nc *nats.Conn, info *jetstream.StreamInfo, control Control, log *slog.Logger) (PublishMode, error) {
	if m == PublishDedupe {
		return m, nil
	}
	can, why := CanFence(nc, info)
	switch {
	case !can && m == PublishFenced:
		return "", fmt.Errorf("%w: --publish-mode fenced: %s", ErrConfig, why)
	case !can:
		log.Warn("publishing in mode dedupe: a crash may repeat messages, under the same id", "why", why)
		return PublishDedupe, nil
	}
	return PublishFenced, CheckFence(info.Config, control)
}

// Needs are what a publisher needs of its stream: workers ask for them when they start and each second from then on, and doctor does.
type Needs struct {
	// Mode is PublishFenced or PublishDedupe; empty: not known, so that only what both need is asked for.
	Mode PublishMode
	// Subject is the template of the messages' subjects.
	Subject Subject
	// Control is of mode fenced.
	Control Control
}

// Unmet names the first setting that does not fit, and the cure, as an ErrStreamUnfit.
func (n Needs) Unmet(s jetstream.StreamConfig) error {
	filter, captured := n.Subject.Filter(), false
	for _, subject := range s.Subjects {
		captured = captured || covers(subject, filter)
	}
	switch {
	case s.Mirror != nil: // which has no subjects
		return fmt.Errorf("%w: %s is a mirror; publish to its origin", ErrStreamUnfit, s.Name)
	case !captured:
		return fmt.Errorf("%w: %s has subjects %v, which do not capture %s; add %s to it or change --subject",
			ErrStreamUnfit, s.Name, s.Subjects, filter, n.Subject.capture())
	case s.Sealed:
		return fmt.Errorf("%w: %s is sealed; publish to another stream", ErrStreamUnfit, s.Name)
	case s.NoAck:
		return fmt.Errorf("%w: %s has acknowledgements turned off (no_ack); turn them on", ErrStreamUnfit, s.Name)
	case n.Mode == PublishFenced:
		return CheckFence(s, n.Control)
	}
	return nil
}

// seen is what was last seen of the settings of a stream: they may change at any time.
type seen struct {
	largest atomic.Int64 // message, in bytes; 0: any
	keep    atomic.Bool  // records must say that they never expire
	singles atomic.Int64 // messages of a partition that are stored one by one
}

// of reads an extent from what the server says of the stream, and notes its settings.
func (s *seen) of(info jetstream.StreamInfo, needs Needs) delivery.Extent {
	unfit := needs.Unmet(info.Config)
	if unfit == nil { // a limit under which nothing is published fails no message
		s.largest.Store(int64(LargestMessage(info.Config)))
	}
	s.keep.Store(info.Config.MaxAge > 0 && info.Config.AllowMsgTTL)
	return delivery.Extent{
		First: info.State.FirstSeq, Last: info.State.LastSeq, Created: info.Created, MaxAge: info.Config.MaxAge, Unfit: unfit,
	}
}

// most is the largest message that the stream takes, at most as large as that; 0: any.
func (s *seen) most(than int) int {
	largest := int(s.largest.Load())
	if than > 0 && (largest == 0 || than < largest) {
		return than
	}
	return largest
}

// CanFence tells whether server and stream take atomic batches; if not, why says
// what is missing.
func CanFence(nc *nats.Conn, info *jetstream.StreamInfo) (can bool, why string) {
	switch {
	case !versionAtLeast(nc.ConnectedServerVersion(), 2, 12):
		return false, fmt.Sprintf("nats-server %s is older than 2.12", nc.ConnectedServerVersion())
	case !info.Config.AllowAtomicPublish:
		return false, fmt.Sprintf("stream %s does not allow atomic batches (allow_atomic)", info.Config.Name)
	}
	return true, ""
}

// CheckFence refuses settings under which a stale owner could publish, or a
// partition's last control message could vanish.
func CheckFence(s jetstream.StreamConfig, control Control) error {
	refuse := func(setting, why, cure string) error {
		return fmt.Errorf("%w for --publish-mode fenced: %s has %s, %s; %s, or run with --publish-mode dedupe", ErrStreamUnfit, s.Name, setting, why, cure)
	}
	captured := false
	for _, subject := range s.Subjects {
		captured = captured || covers(subject, control.Subjects())
	}
	switch {
	case !captured:
		return refuse(fmt.Sprintf("subjects %v", s.Subjects), "which do not capture the control messages", "add "+control.Subjects())
	case !s.AllowAtomicPublish:
		return refuse("allow_atomic off", "so that it refuses batches", "turn it on")
	case s.Retention != jetstream.LimitsPolicy:
		return refuse("retention "+s.Retention.String(), "under which expectations are not checked against what nobody consumes", "use retention limits")
	case s.PersistMode == jetstream.AsyncPersistMode:
		return refuse("persist_mode async", "which excludes atomic batches", "use the default")
	case s.Discard == jetstream.DiscardOld && (s.MaxMsgs > 0 || s.MaxBytes > 0):
		return refuse("discard old with a limit", "which drops control messages of idle partitions", "use discard new")
	case s.MaxAge > 0 && !s.AllowMsgTTL:
		return refuse(fmt.Sprintf("max_age %s", s.MaxAge), "which drops control messages of idle partitions", "allow message TTLs (allow_msg_ttl), so that they can be kept")
	case s.MaxMsgSize > 0 && s.MaxMsgSize < leastRecord:
		return refuse(fmt.Sprintf("max_msg_size %d", s.MaxMsgSize), "and control messages are larger", fmt.Sprintf("set it to at least %d, or to -1", leastRecord))
	case s.MaxMsgsPerSubject > 0:
		return refuse(fmt.Sprintf("max_msgs_per_subject %d", s.MaxMsgsPerSubject), "and a control subject holds many, which a takeover reads", "set it to -1")
	case s.SubjectTransform != nil:
		return refuse("a subject transform", "which may move control messages elsewhere", "remove it")
	}
	return nil
}
