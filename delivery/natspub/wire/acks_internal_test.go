package wire

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
		if want := ParseAnswer(&nats.Msg{Data: []byte(text)}); ok && (want.Err != nil || ans != want) {
			t.Errorf("%s: %+v, decoded %+v", text, ans, want)
		}
	}
	if _, ok := usualAnswer([]byte(`{"stream":"","seq":17}`), ""); ok {
		t.Error("a stream without a name is the usual")
	}
}

// Another stream on the subject, as at a leaf node, may refuse a message before its own stream has stored it.
func TestAnotherStreamsAnswerIsNotTaken(t *testing.T) {
	t.Parallel()
	a, answered := &Answers{prefix: "inbox.", waiting: map[uint64]receiver{}}, make(answerChannel, 2)
	reply := a.expect(answered)
	for _, said := range []string{`{"error":{"code":400,"err_code":10060,"description":"expected stream does not match"},"stream":"HERE","seq":0}`, `{"stream":"EVENTS","seq":7}`} {
		a.receive(&nats.Msg{Subject: reply, Data: []byte(said)})
	}
	if ans := <-answered; ans.Err != nil || ans.Sequence != 7 {
		t.Errorf("the answer is %+v, want that of its own stream", ans)
	}
}
