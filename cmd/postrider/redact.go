package main

import "regexp"

var (
	urlSecret   = regexp.MustCompile(`([a-z]+://)[^\s/@]*@`)
	fieldSecret = regexp.MustCompile(`(?i)\b(password|passwd|token|secret)(\s*[=:]\s*)\S+`)
)

// redact takes credentials out of text that people or logs will see.
func redact(text string) string {
	text = urlSecret.ReplaceAllString(text, "${1}***@")
	return fieldSecret.ReplaceAllString(text, "${1}${2}***")
}
