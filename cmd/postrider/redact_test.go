package main

import (
	"strings"
	"testing"
)

// No part of a password is shown, however the address is broken, which hides where the password ends.
func TestBrokenAddressesAreNotShown(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]string{
		"quote without an end":         "host=127.0.0.1 port=1 password='a " + planted + " user=x",
		"quote after a quote":          "host=127.0.0.1 port=1 password='it''s " + planted + "' user=x",
		"escaped end":                  `host=127.0.0.1 port=1 password='a\' ` + planted + ` user=x`,
		"double quotes":                `host=127.0.0.1 port=1 password="a ` + planted + `" user=x`,
		"before an equals sign":        "host=127.0.0.1 port=1 password=a " + planted + " user=x",
		"one letter off":               "host=127.0.0.1 port=1 pass word='a " + planted + "' sslmode=odd",
		"quote of another key":         "host='127.0.0.1 port=1 password=a " + planted,
		"key of a certificate":         "host=127.0.0.1 port=1 sslpassword='a " + planted,
		"URL, space":                   "postgres://x:a " + planted + "@127.0.0.1:1/x",
		"URL, percent":                 "postgres://x:a%zz" + planted + "@127.0.0.1:1/x",
		"URL, slash behind a number":   "postgres://x:12/" + planted + "@127.0.0.1:1/x",
		"URL, at sign":                 "postgres://x:a@" + planted + "@127.0.0.1:1/x",
		"URL, at sign and slash":       "postgres://x:a@127.0.0.1:1/" + planted + "@127.0.0.1:1/x",
		"URL, question mark":           "postgres://x:1/?" + planted + "@127.0.0.1:1/x",
		"URL, query, name as a number": "postgres://127.0.0.1:1/x?sslmode=odd&pass%77ord=" + planted,
		"URL, query, at sign":          "postgres://127.0.0.1:1/x?user=x&password=a@" + planted,
		"other scheme":                 "postgre://x:a/" + planted + "@127.0.0.1:1/x",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, args := range [][]string{{"status"}, {"doctor"}, {"run", "--http-addr=off"}, {"config", "print"}} {
				_, stdout, stderr := call(t, append(args, "--database-url="+address)...)
				wantNoSecret(t, stdout+stderr)
			}
		})
	}
}

// What was meant for a file may come as the file's content.
func TestContentInPlaceOfAFileIsNotShown(t *testing.T) {
	t.Setenv("POSTRIDER_NATS_CREDS", "-----BEGIN NATS USER JWT-----\n"+planted)
	code, stdout, stderr := call(t, "tail")
	if code != exitRefused || !strings.Contains(stderr, "--nats-creds") {
		t.Errorf("status %d: %s", code, stderr)
	}
	wantNoSecret(t, stdout+stderr)
	_, stdout, stderr = call(t, "status", "postgres://u:"+planted+"@h/x")
	wantNoSecret(t, stdout+stderr)
}
