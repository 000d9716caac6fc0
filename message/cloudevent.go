package message

import (
	"strconv"
	"strings"
)

// The headers of a CloudEvent in binary mode.
const (
	HeaderCESpecVersion     = "ce-specversion"
	HeaderCEID              = "ce-id"
	HeaderCESource          = "ce-source"
	HeaderCEType            = "ce-type"
	HeaderCESubject         = "ce-subject"
	HeaderCETime            = "ce-time"
	HeaderCEDataContentType = "ce-datacontenttype"
	HeaderCEDataSchema      = "ce-dataschema"
	HeaderCEPartitionKey    = "ce-partitionkey"
	HeaderCESequence        = "ce-sequence"
	HeaderCECorrelationID   = "ce-correlationid"
	HeaderCECausationID     = "ce-causationid"
)

// CEPrefix begins the headers of all attributes.
const CEPrefix = "ce-"

// EncodeAttribute encodes a value by the binding's rules: space, double quote, percent and everything outside the printable ASCII range
// become %XX for each byte of UTF-8.
func EncodeAttribute(value string) string {
	plainly := true
	for i := range len(value) {
		plainly = plainly && keeps(value[i])
	}
	if plainly {
		return value
	}
	var b strings.Builder
	b.Grow(len(value) + len(value)/2)
	for i := range len(value) {
		if c := value[i]; keeps(c) {
			b.WriteByte(c)
		} else {
			writePercent(&b, c)
		}
	}
	return b.String()
}

func keeps(c byte) bool { return c > ' ' && c < 0x7f && c != '"' && c != '%' }

// writePercent writes a byte as %XX.
func writePercent(b *strings.Builder, c byte) {
	if c < 16 {
		b.WriteString("%0")
	} else {
		b.WriteByte('%')
	}
	b.WriteString(strings.ToUpper(strconv.FormatUint(uint64(c), 16)))
}
