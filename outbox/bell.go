package outbox

import (
	"fmt"
	"strings"

	"github.com/postrider/postrider/partition"
)

// BellSubject is the core-NATS subject that wakes the workers of a schema. Publishing a message there after the commit saves them
// the wait for their next poll. It is a courtesy: nothing is lost when it is not sent or does not arrive, and one ring is enough for many
// transactions. Ring after the commit, never inside the transaction.
//
//	if err := tx.Commit(ctx); err != nil {
//		return err
//	}
//	_ = nc.Publish(outbox.BellSubject("public"), outbox.BellBody(appended...)) // workers poll anyway
//
// With an empty message the workers look at every partition, which costs the database more.
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

// BellBody names the partitions of appended events, each once (partition.ID.Append). It is nil, which rings for all partitions, when nothing
// was queued.
func BellBody(appended ...Appended) []byte {
	var body []byte
	seen := map[partition.ID]bool{}
	for _, a := range appended {
		if a.Enqueued && !seen[a.Partition] {
			seen[a.Partition] = true
			body = a.Partition.Append(body)
		}
	}
	return body
}
