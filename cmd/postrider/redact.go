package main

import (
	"cmp"
	"regexp"
	"strings"

	"github.com/postrider/postrider/condition"
	"github.com/postrider/postrider/internal/pg"
)

// dsnSecret matches a password among keywords, by the rules of PostgreSQL's client.
var dsnSecret = regexp.MustCompile(`(?i)(password\s*=\s*)('(?:[^'\\]|\\.)*'?|(?:\\.|[^\s\\])*)`)

// redactDatabase removes the credentials from a --database-url.
func redactDatabase(address string) string {
	if _, err := pg.ParseConfig(address); err != nil {
		return "***"
	}
	scheme, rest, is := strings.Cut(address, "://")
	if !is {
		return dsnSecret.ReplaceAllString(address, "${1}***")
	}
	if i := strings.IndexAny(rest, "@/"); i >= 0 && rest[i] == '@' {
		rest = "***" + rest[i:]
	}
	return scheme + "://" + querySecret.ReplaceAllString(rest, "${1}***")
}

// querySecret matches a password in a URL's query; the letters of its name may be percent-encoded.
var querySecret = regexp.MustCompile(`(?i)([?&](?:[^&=]*password|[^&=]*%[^&=]*)=)[^&]*`)

// redact removes credentials from texts for people or logs.
func redact(text string) string { return condition.Redact(text) }

// settingFlags are the flags of settings that packages name by their fields.
var settingFlags = map[string]string{
	"Auth.Tokens[0].Value": "--http-token", "AckTimeout": "--ack-timeout", "BatchSize": "--batch-size", "ControlPrefix": "--control-prefix", "DatabaseURL": "--database-url",
	"DrainTimeout": "--drain-timeout", "Events": "--events-relation", "Failure": "--behind", "KeepRecords": "--keep-records", "Lost": "--lost-messages",
	"NATSURL": "--nats-url", "Ordering": "--ordering", "Partitions": "--partitions", "PollInterval": "--interval", "RetentionConfig.History": "--retention",
	"RetryPolicy.Base": "--retry-base", "Base": "--retry-base", "RetryPolicy.Max": "--retry-max", "RetryPolicy.MaxAttempts": "--max-attempts",
	"Schema": "--schema", "ServerConfig.Addr": "--http-addr", "Strategy": "--assignment", "Stream": "--stream", "Subject": "--subject", "TTL": "--lease-ttl", "Window": "--in-flight",
}

var (
	settingPlace = regexp.MustCompile(`\b(?:(?:worker|lease|heartbeat|coordinator|delivery|nats) configuration|schema config|ui): `)
	settingLabel = regexp.MustCompile(`\b[A-Z][\w.]*(?:, [A-Z]\w*)* \((--[^)]+)\): `)
	settingName  = regexp.MustCompile(`\b(?:Auth\.\w+|[A-Z]\w*)(?:\[\d+\])?(?:\.[A-Z]\w*)?\b`)
	settingTwice = regexp.MustCompile(`--[a-z*, -]+: (--)`)
)

// inFlags replaces field names by flags in a package's error about its configuration. Other text stays.
func inFlags(text string) string {
	var said []string
	for line := range strings.Lines(text) {
		of := settingPlace.MatchString(line) || settingLabel.MatchString(line)
		if of {
			line = settingLabel.ReplaceAllString(settingPlace.ReplaceAllString(line, ""), "$1: ")
			line = settingName.ReplaceAllStringFunc(line, func(name string) string { return cmp.Or(settingFlags[name], name) })
			line = settingTwice.ReplaceAllString(line, "$1")
		}
		if last := len(said) - 1; !of || last < 0 || !strings.HasSuffix(strings.TrimSpace(said[last]), strings.TrimSpace(line)) {
			said = append(said, line)
		}
	}
	return strings.TrimSuffix(strings.Join(said, ""), "\n")
}
