package faultproxy

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"testing"
)

// quiet is a test whose failures do not count.
type quiet struct{ testing.TB }

func (quiet) Errorf(string, ...any) {}

// filtersOf returns the filters of a new connection, with something to wait for.
func filtersOf(t testing.TB) map[string]func() *filter {
	t.Helper()
	never := func(Message) bool { return false }
	n := &NATS{Proxy: &Proxy{t: t}, drops: map[*Drop]struct{}{}}
	n.DropMessages(never)
	n.CutAfterPub(never)
	g := &Postgres{Proxy: &Proxy{t: t}}
	g.CutAtCommit(AfterServer, func(string) bool { return false })
	return map[string]func() *filter{
		"NATS client":       func() *filter { return n.follow(nil).up },
		"NATS server":       func() *filter { return n.follow(nil).down },
		"PostgreSQL client": func() *filter { return g.follow(nil).up },
		"PostgreSQL server": func() *filter { return g.follow(nil).down },
	}
}

func pgMessage(kind byte, body string) string {
	return string(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4))) + body
}

func pgStartup(code uint32, body string) string {
	length := binary.BigEndian.AppendUint32(nil, uint32(len(body)+8))
	return string(binary.BigEndian.AppendUint32(length, code)) + body
}

var streams = map[string]string{
	"NATS client": "CONNECT {\"verbose\":false}\r\nSUB a.* 1\r\nping\r\nPUB a 0\r\n\r\nPUB a b 5\r\n\r\nPUB\r\n" +
		"HPUB a b 12 14\r\nNATS/1.0\r\n\r\nxx\r\nUNSUB 1\r\nPONG\r\n",
	"NATS server": "INFO {\"max_payload\":1}\r\n+OK\r\n-ERR 'no'\r\nPING\r\nMSG a 1 2\r\nab\r\nMSG a 1 b 2\r\nab\r\n" +
		"HMSG a 1 b 12 12\r\nNATS/1.0\r\n\r\n\r\nINFO {}\r\nPONG\r\n",
	"PostgreSQL client": pgStartup(gssRequest, "") + pgStartup(sslRequest, "") + pgStartup(196608, "user\x00me\x00\x00") +
		pgMessage('p', "secret\x00") + pgMessage('Q', "BEGIN; SELECT 1\x00") + pgMessage('P', "a\x00INSERT\x00\x00\x00") +
		pgMessage('B', "\x00a\x00\x00\x00") + pgMessage('E', "\x00\x00\x00\x00\x00") + pgMessage('C', "Sa\x00") +
		pgMessage('S', "") + pgMessage('F', "") + pgMessage('X', ""),
	"PostgreSQL server": pgMessage('R', "\x00\x00\x00\x00") + pgMessage('Z', "I") + pgMessage('C', "COMMIT\x00") +
		pgMessage('E', "\x00") + pgMessage('Z', "T"),
}

// Wherever the network splits a stream, whole frames go on at once and all bytes in the end.
func TestStreamsAreSplitAnywhere(t *testing.T) {
	t.Parallel()
	for name, create := range filtersOf(t) {
		stream := []byte(streams[name])
		for size := 1; size <= len(stream); size++ {
			f := create()
			var got []byte
			for piece := range slices.Chunk(stream, size) {
				out, after := f.pass(piece)
				if after != nil {
					t.Fatalf("%s: something fired", name)
				}
				got = append(got, out...)
			}
			if !bytes.Equal(got, stream) {
				t.Fatalf("%s in pieces of %d: got %q of %q", name, size, got, stream)
			}
		}
	}
}

func FuzzEverythingPasses(f *testing.F) {
	for _, stream := range streams {
		f.Add([]byte(stream), 7)
	}
	f.Add([]byte("HPUB a 9 99999999999999999999\r\n"), 3)
	f.Add([]byte("PUB 2147483647 9223372036854775807\r\n"), 3)
	f.Add([]byte("HMSG 2 2\r\n\r\n\r\nMSG a 0\r\n\r\n"), 100)
	f.Fuzz(func(t *testing.T, stream []byte, size int) {
		if size < 1 || bytes.Contains(stream, []byte("connect_urls")) {
			return
		}
		for name, create := range filtersOf(quiet{t}) {
			filter := create()
			var got []byte
			for piece := range slices.Chunk(stream, size) {
				out, _ := filter.pass(piece)
				got = append(got, out...)
			}
			if got = append(got, filter.rest()...); !bytes.Equal(got, stream) {
				t.Errorf("%s: %q became %q", name, stream, got)
			}
		}
	})
}

func TestParseMessage(t *testing.T) {
	t.Parallel()
	for frame, want := range map[string]Message{
		"PUB s 2\r\nab\r\n":      {Subject: "s", Payload: []byte("ab")},
		"pub\ts  r 0\r\n\r\n":    {Subject: "s", Reply: "r"},
		"MSG s 12 2\r\nab\r\n":   {Subject: "s", Payload: []byte("ab")},
		"MSG s 12 r 2\r\nab\r\n": {Subject: "s", Reply: "r", Payload: []byte("ab")},
		"HPUB s r 18 20\r\nNATS/1.0\r\nK: v\r\n\r\nab\r\n": {
			Subject: "s", Reply: "r", Header: []byte("NATS/1.0\r\nK: v\r\n\r\n"), Payload: []byte("ab"),
		},
		"HMSG s 1 12 12\r\nNATS/1.0\r\n\r\n\r\n": {Subject: "s", Header: []byte("NATS/1.0\r\n\r\n")},
	} {
		got, ok := parseMessage([]byte(frame))
		if !ok || got.Subject != want.Subject || got.Reply != want.Reply || !bytes.Equal(got.Header, want.Header) ||
			!bytes.Equal(got.Payload, want.Payload) {
			t.Errorf("%q is read as %+v", frame, got)
		}
	}
	if _, ok := parseMessage([]byte("PING\r\n")); ok {
		t.Error("PING is read as a message")
	}
}

func TestHideNodes(t *testing.T) {
	t.Parallel()
	frame := "INFO {\"port\":1,\"connect_urls\":[\"10.0.0.1:4222\"],\"nonce\":\"x\"}\r\n"
	for name, create := range filtersOf(t) {
		if name != "NATS server" {
			continue
		}
		got, _ := create().pass([]byte(frame))
		if want := "INFO {\"nonce\":\"x\",\"port\":1}\r\n"; string(got) != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestSplitSQL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                           "",
		" ; ;":                       "",
		"a; b ;c":                    "a|b|c",
		"'a;''b;';c":                 "'a;''b;'|c",
		`e'\';';c`:                   `e'\';'|c`,
		`'\';c`:                      `'\'|c`,
		`"a;""b";c`:                  `"a;""b"|c`,
		"$$a;$b$;$$;c":               "$$a;$b$;$$|c",
		"$f$ $$;$$ ; $f$;c":          "$f$ $$;$$ ; $f$|c",
		"select $1;c":                "select $1|c",
		"x$y;$y;c":                   "x$y|$y|c",
		"a -- ;\n;b":                 "a -- ;|b",
		"a /* ; /* ; */ ; */ ; b":    "a /* ; /* ; */ ; */|b",
		"'open;":                     "'open;",
		"begin;\ncommit -- the end;": "begin|commit -- the end;",
	} {
		if got := strings.Join(splitSQL(text), "|"); got != want {
			t.Errorf("%q is split into %q, want %q", text, got, want)
		}
	}
}

func TestControlOf(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]control{
		"BEGIN":                                controlBegin,
		"begin isolation level serializable":   controlBegin,
		"START TRANSACTION":                    controlBegin,
		"/* a */ -- b\n Commit":                controlCommit,
		"END WORK":                             controlCommit,
		"COMMIT PREPARED 'x'":                  controlNone,
		"rollback":                             controlRollback,
		"ABORT":                                controlRollback,
		"ROLLBACK TO s":                        controlNone,
		"ROLLBACK WORK TO SAVEPOINT s":         controlNone,
		"ROLLBACK PREPARED 'x'":                controlNone,
		"PREPARE TRANSACTION 'x'":              controlRollback,
		"PREPARE p AS SELECT 1":                controlNone,
		"SAVEPOINT s":                          controlNone,
		"INSERT INTO commit VALUES ('COMMIT')": controlNone,
		"":                                     controlNone,
		"(select 1)":                           controlNone,
	} {
		if got := controlOf(sql); got != want {
			t.Errorf("%q does %d, want %d", sql, got, want)
		}
	}
}

func TestTransaction(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"SELECT a; SELECT b":                        "SELECT a+SELECT b",
		"BEGIN; SELECT a":                           "",
		"BEGIN; SELECT a; COMMIT; SELECT b":         "SELECT a|SELECT b",
		"SELECT a; BEGIN; SELECT b; COMMIT":         "SELECT a+SELECT b",
		"BEGIN; SELECT a; ROLLBACK; SELECT b":       "SELECT b",
		"BEGIN; COMMIT":                             "",
		"BEGIN; SELECT a; ROLLBACK TO s; END":       "ROLLBACK TO s+SELECT a",
		"BEGIN; SELECT a; PREPARE TRANSACTION 'x';": "",
	} {
		var tx transaction
		commits, _ := tx.query(text)
		var got []string
		for _, executed := range commits {
			got = append(got, strings.Join(slices.Sorted(maps.Keys(executed)), "+"))
		}
		if strings.Join(got, "|") != want {
			t.Errorf("%q commits %q, want %q", text, got, want)
		}
	}
}

// The server's word about the transaction counts, unless the client has gone on meanwhile.
func TestTransactionSettles(t *testing.T) {
	t.Parallel()
	var tx transaction
	tx.query("BEGIN; SELECT a")
	tx.settle('I') // BEGIN failed
	if tx.open || tx.executed != nil {
		t.Errorf("the transaction is %+v", tx)
	}
	tx.execute("BEGIN")
	tx.settle('I') // the answer to what was before
	if !tx.open {
		t.Error("a transaction under way was ended")
	}
}
