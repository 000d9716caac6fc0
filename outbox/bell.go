package outbox

import (
	"fmt"
	"strings"
)

// BellSubject is the core-NATS subject that wakes the workers of a schema. Publishing an empty message there after the commit saves them
// the wait for their next poll. It is a courtesy: nothing is lost when it is not sent or does not arrive, and one ring is enough for many
// transactions. Ring after the commit, never inside the transaction.
//
//	if err := tx.Commit(ctx); err != nil {
//		return err
//	}
//	_ = nc.Publish(outbox.BellSubject("public"), nil) // workers poll anyway
//
// Characters other than A-Z a-z 0-9 _ - are escaped as %XX.
func BellSubject(schema string) string {
	var subject strings.Builder
	subject.WriteString("outbox.bell.")
	for i := range len(schema) {
		c := schema[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' {
			subject.WriteByte(c)
			continue
		}
		fmt.Fprintf(&subject, "%%%02X", c)
	}
	return subject.String()
}
