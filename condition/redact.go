package condition

import "regexp"

var (
	// The password of a URL may hold anything but white space: everything up to the last @ goes.
	urlSecret = regexp.MustCompile(`(?i)([a-z][a-z0-9+.-]*://)\S*@`)
	// A NATS URL may lack its scheme.
	bareSecret = regexp.MustCompile(`(^|[\s,"'` + "`" + `])[^\s,:/@"'` + "`" + `]+:/?(?:[^\s,/@"'` + "`" + `][^\s,@"'` + "`" + `]*)?@`)
	// A quote may lack its end.
	fieldSecret = regexp.MustCompile(`(?i)([a-z_]*(?:password|passwd|token|secret))(\s*[=:]\s*)('(?:[^'\\]|\\.)*(?:'|$)|[^\s&,]+)`)
	keySecret   = regexp.MustCompile(`(?s)-----BEGIN.*`)
)

// Redact takes credentials out of text that people or logs will see.
func Redact(text string) string {
	text = urlSecret.ReplaceAllString(text, "${1}***@")
	text = bareSecret.ReplaceAllString(text, "${1}***@")
	text = keySecret.ReplaceAllString(text, "***")
	return fieldSecret.ReplaceAllString(text, "${1}${2}***")
}
