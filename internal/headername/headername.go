package headername

import "strings"

// Status is the name by which clients know an answer of the server.
const Status = "Status"

// Pattern matches reserved names in lower case, as a regular expression of PostgreSQL.
const Pattern = `^(nats-|outbox-|(status|description|kv-operation)$)`

// Reserved returns why a producer's header may not have that name, to follow the name; "" where it may.
func Reserved(name string) string {
	switch lower := strings.ToLower(name); {
	case strings.HasPrefix(lower, "nats-"), strings.HasPrefix(lower, "outbox-"):
		return "must not begin with Nats- or Outbox-"
	case lower == "status", lower == "description", lower == "kv-operation":
		return "is one that NATS clients take for the server's"
	}
	return ""
}
