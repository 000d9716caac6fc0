package main

import (
	"regexp"
	"strings"
)

var (
	// The password of a URL may hold anything but white space: everything up to the last @ goes.
	urlSecret = regexp.MustCompile(`(?i)([a-z][a-z0-9+.-]*://)\S*@`)
	// A NATS URL may lack its scheme.
	bareSecret  = regexp.MustCompile(`(^|[\s,"'` + "`" + `])[^\s,:/@"'` + "`" + `]+:[^\s,@"'` + "`" + `]*@`)
	fieldSecret = regexp.MustCompile(`(?i)([a-z_]*(?:password|passwd|token|secret))(\s*[=:]\s*)('(?:[^'\\]|\\.)*'|[^\s&,]+)`)
)

// dsnSecret is a password among keywords, as PostgreSQL's client reads them.
var dsnSecret = regexp.MustCompile(`(?i)(password\s*=\s*)('(?:[^'\\]|\\.)*'?|(?:\\.|[^\s\\])*)`)

// redactDatabase takes the credentials out of what --database-url is.
func redactDatabase(address string) string {
	if !strings.Contains(address, "://") {
		return dsnSecret.ReplaceAllString(address, "${1}***")
	}
	place, query, asks := strings.Cut(urlSecret.ReplaceAllString(address, "${1}***@"), "?")
	if asks {
		place += "?" + querySecret.ReplaceAllString(query, "${1}***")
	}
	return place
}

var querySecret = regexp.MustCompile(`(?i)(password=)[^&]*`)

// redact takes credentials out of text that people or logs will see.
func redact(text string) string {
	text = urlSecret.ReplaceAllString(text, "${1}***@")
	text = bareSecret.ReplaceAllString(text, "${1}***@")
	return fieldSecret.ReplaceAllString(text, "${1}${2}***")
}
