package measure

import (
	"encoding/binary"

	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/message"
)

// messageBuffer holds the messages of a flight in wire format, with the relay's headers.
type messageBuffer struct {
	atomic   bool
	json     bool
	subject  wire.Subject
	subjects map[string]string

	reply    []byte // the subject of acknowledgements
	batch    string // id of an atomic batch
	bytes    []byte
	messages int
	header   []byte // of the present message
	last     lastMessage
}

// lastMessage locates the parts of the message written last: an atomic batch marks its last message, which is known only
// at the end.
type lastMessage struct {
	start, header, payload, end int
	subject                     string
}

// reset begins a flight.
func (m *messageBuffer) reset(reply []byte, batch string) {
	m.reply, m.batch, m.bytes, m.messages = reply, batch, m.bytes[:0], 0
}

// row appends the message of a row of the null relay's statements, in binary format, and returns its sequence.
func (m *messageBuffer) row(v [][]byte) int64 {
	sequence := int64(binary.BigEndian.Uint64(v[0]))
	payload := v[7]
	if m.json && len(payload) > 0 {
		payload = payload[1:] // skips the format's version
	}
	m.messages++
	h := append(m.header[:0], "NATS/1.0\r\n"+message.HeaderEventID+": "...)
	h = idText(h, v[4])
	h = append(h, "\r\n"+message.HeaderSequence+": "...)
	h = decimal(h, sequence)
	h = append(h, "\r\n"+message.HeaderPartition+": "...)
	h = decimal(h, int64(binary.BigEndian.Uint16(v[1])))
	h = append(h, "\r\n"+message.HeaderStream+": "...)
	h = append(h, v[2]...)
	h = append(h, "\r\n"+message.HeaderStreamVersion+": "...)
	h = decimal(h, int64(binary.BigEndian.Uint64(v[5])))
	h = append(h, "\r\n"+message.HeaderType+": "...)
	h = append(h, v[6]...)
	h = append(h, "\r\n"...)
	if m.atomic {
		h = append(h, "Nats-Batch-Id: "...)
		h = append(h, m.batch...)
		h = append(h, "\r\nNats-Batch-Sequence: "...)
		h = decimal(h, int64(m.messages))
		h = append(h, "\r\n\r\n"...)
	} else {
		h = append(h, nats.MsgIdHdr+": "...)
		h = idText(h, v[4])
		h = append(h, "\r\n\r\n"...)
	}
	m.header = h
	reply := m.reply
	if m.atomic {
		reply = nil
	}
	m.append(m.subjectOf(v[3], v[6]), reply, payload)
	return sequence
}

// append writes a message with the present header.
func (m *messageBuffer) append(subject string, reply, payload []byte) {
	m.last = lastMessage{start: len(m.bytes), subject: subject}
	b := append(m.bytes, "HPUB "...)
	b = append(b, subject...)
	if len(reply) > 0 {
		b = append(append(b, ' '), reply...)
	}
	b = decimal(append(b, ' '), int64(len(m.header)))
	b = decimal(append(b, ' '), int64(len(m.header)+len(payload)))
	b = append(b, "\r\n"...)
	m.last.header = len(b)
	b = append(b, m.header...)
	m.last.payload = len(b)
	b = append(b, payload...)
	m.last.end = len(b)
	m.bytes = append(b, "\r\n"...)
}

// wire returns the flight's bytes. An atomic batch's last message commits it and requests the answer.
func (m *messageBuffer) wire() []byte {
	if m.atomic && m.messages > 0 {
		l := m.last
		payload := append([]byte(nil), m.bytes[l.payload:l.end]...)
		m.header = append(m.header[:0], m.bytes[l.header:l.payload-len("\r\n")]...)
		m.header = append(m.header, "Nats-Batch-Commit: 1\r\n\r\n"...)
		m.bytes = m.bytes[:l.start]
		m.append(l.subject, m.reply, payload)
	}
	return m.bytes
}
