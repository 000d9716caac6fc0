package source

import (
	"strings"
	"unicode/utf8"

	"github.com/postrider/postrider/condition"
)

const longestReason = 200

// Scrub removes credentials from a message, and all past its first line or an immoderate length. Libraries rarely put a password into an
// error; Scrub guards against exceptions.
func Scrub(message string) string {
	message, _, _ = strings.Cut(condition.Redact(message), "\n")
	if len(message) > longestReason {
		cut := longestReason
		for !utf8.RuneStart(message[cut]) {
			cut--
		}
		message = message[:cut] + "…"
	}
	return message
}
