package natspub

import (
	"testing"

	"github.com/nats-io/nats.go"
)

// What is read without decoding means the same as what is decoded.
func TestTheUsualAnswerIsReadAsAnyOther(t *testing.T) {
	t.Parallel()
	for text, usual := range map[string]bool{
		`{"stream":"EVENTS","seq":17}`:                     true,
		`{"stream":"EVENTS","seq":999999999999999999}`:     true,
		`{"stream":"EVENTS","seq":0}`:                      true,
		`{"stream":"EVENTS","seq":17,"duplicate":true}`:    false,
		`{"stream":"EVENTS","domain":"hub","seq":17}`:      false,
		`{"stream":"EVENTS2","seq":17}`:                    false,
		`{"stream":"OTHER","seq":17}`:                      false,
		`{"stream":"EVENTS", "seq":17}`:                    false,
		`{"stream":"EVENTS","seq":}`:                       false,
		`{"stream":"EVENTS","seq":-1}`:                     false,
		`{"stream":"EVENTS","seq":18446744073709551615}`:   false,
		`{"error":{"code":400,"err_code":10071},"seq":17}`: false,
		``: false,
	} {
		ans, ok := usualAnswer([]byte(text), "EVENTS")
		if ok != usual {
			t.Errorf("%s: usual %t", text, ok)
		}
		if want := parseAnswer(&nats.Msg{Data: []byte(text)}); ok && (want.err != nil || ans != want) {
			t.Errorf("%s: %+v, decoded %+v", text, ans, want)
		}
	}
	if _, ok := usualAnswer([]byte(`{"stream":"","seq":17}`), ""); ok {
		t.Error("a stream without a name is the usual")
	}
}
