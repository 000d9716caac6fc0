package main

import "regexp"

var (
	// The password of a URL may hold anything but white space: everything up to the last @ goes.
	urlSecret = regexp.MustCompile(`(?i)([a-z][a-z0-9+.-]*://)[^\s,"'` + "`" + `]*@`)
	// A NATS URL may lack its scheme.
	bareSecret  = regexp.MustCompile(`(^|[\s,"'` + "`" + `])[^\s,:/@"'` + "`" + `]+:[^\s,@"'` + "`" + `]*@`)
	fieldSecret = regexp.MustCompile(`(?i)([a-z_]*(?:password|passwd|token|secret))(\s*[=:]\s*)('(?:[^'\\]|\\.)*'|[^\s&,]+)`)
)

// redact takes credentials out of text that people or logs will see.
func redact(text string) string {
	text = urlSecret.ReplaceAllString(text, "${1}***@")
	text = bareSecret.ReplaceAllString(text, "${1}***@")
	return fieldSecret.ReplaceAllString(text, "${1}${2}***")
}
