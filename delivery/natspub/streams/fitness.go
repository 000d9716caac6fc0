package streams

import (
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery/natspub/wire"
)

// Needs of a publisher are checked by workers when they start and each second from then on, and by doctor.
type Needs struct {
	// Subject is the template of the messages' subjects.
	Subject wire.Subject
	// Control are the control messages; nil: not known, or there are none.
	Control *Control
}

// Unmet names the first setting that does not fit, and the cure, as an wire.ErrStreamUnfit.
func (n Needs) Unmet(s jetstream.StreamConfig) error {
	filter, captured := n.Subject.Filter(), false
	for _, subject := range s.Subjects {
		captured = captured || covers(subject, filter)
	}
	switch {
	case s.Mirror != nil: // which has no subjects
		return fmt.Errorf("%w: %s is a mirror; publish to its origin", wire.ErrStreamUnfit, s.Name)
	case !captured:
		return fmt.Errorf("%w: %s has subjects %v, which do not capture %s; add %s to it or change --subject",
			wire.ErrStreamUnfit, s.Name, s.Subjects, filter, capture(n.Subject))
	case s.Sealed:
		return fmt.Errorf("%w: %s is sealed; publish to another stream", wire.ErrStreamUnfit, s.Name)
	case s.NoAck:
		return fmt.Errorf("%w: %s has acknowledgements turned off (no_ack); turn them on", wire.ErrStreamUnfit, s.Name)
	case n.Control == nil:
		return nil
	}
	return n.unfenced(s)
}

// TakesBatches reports whether server and stream take atomic batches; why names the obstacle.
func TakesBatches(nc *nats.Conn, s jetstream.StreamConfig) (can bool, why string) {
	switch {
	case !versionAtLeast(nc.ConnectedServerVersion(), 12):
		return false, fmt.Sprintf("nats-server %s is older than 2.12", nc.ConnectedServerVersion())
	case !s.AllowAtomicPublish:
		return false, fmt.Sprintf("stream %s does not allow atomic batches (allow_atomic)", s.Name)
	}
	return true, ""
}

// leastRecord holds a record of one event, headers included, in bytes.
const leastRecord = 1 << 10

// unfenced names a setting under which a stale owner could publish, or a partition's last control message could vanish.
func (n Needs) unfenced(s jetstream.StreamConfig) error {
	refuse := func(setting, why, cure string) error {
		return fmt.Errorf("%w: %s has %s, %s; %s", wire.ErrStreamUnfit, s.Name, setting, why, cure)
	}
	captured := false
	for _, subject := range s.Subjects {
		captured = captured || covers(subject, n.Control.Subjects())
	}
	switch {
	case !captured:
		return refuse(fmt.Sprintf("subjects %v", s.Subjects), "which do not capture the control messages", "add "+n.Control.Subjects())
	case s.Retention != jetstream.LimitsPolicy:
		return refuse("retention "+s.Retention.String(), "under which expectations are not checked against what nobody consumes", "use retention limits")
	case s.PersistMode == jetstream.AsyncPersistMode:
		return refuse("persist_mode async", "under which it acknowledges what it has not stored", "use the default")
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

// mostInFile bounds headers and body in a stream in files, in bytes. The server refuses to write a record above 32 MiB (rlBadThresh in
// its filestore.go), and blames the disk, not the message.
const mostInFile = 32<<20 - 8<<10

// LargestMessage returns the largest message that such a stream takes, headers and body, in bytes; 0: any.
func LargestMessage(s jetstream.StreamConfig) int {
	switch largest := int(s.MaxMsgSize); {
	case s.Storage == jetstream.MemoryStorage:
		return max(0, largest)
	case largest > 0:
		return min(largest, mostInFile)
	default:
		return mostInFile
	}
}
