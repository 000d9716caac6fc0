package source

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

const longestReason = 200

var (
	urlCredentials = regexp.MustCompile(`://[^\s/@]*@`)
	keyedSecret    = regexp.MustCompile(`(?i)\b(password|passwd|secret|token)\s*=\s*('[^']*'|\S+)`)
)

// Scrub takes credentials out of a message, and everything past its first line or an immoderate length. Libraries rarely put a password
// into an error; this is the second lock on that door.
func Scrub(message string) string {
	message, _, _ = strings.Cut(message, "\n")
	message = urlCredentials.ReplaceAllString(message, "://***@")
	message = keyedSecret.ReplaceAllString(message, "$1=***")
	if len(message) > longestReason {
		cut := longestReason
		for !utf8.RuneStart(message[cut]) {
			cut--
		}
		message = message[:cut] + "…"
	}
	return message
}
