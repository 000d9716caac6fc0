package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"

	"github.com/postrider/postrider/inbox"
	"github.com/postrider/postrider/message"
)

// oddValues lists texts that a header may hold and nobody expects.
var oddValues = []string{
	"", " ", "\x00", "a\x00b", "\xff\xfe", "\u202e", "-1", "0", "1e400", "9223372036854775807", "9223372036854775808", "18446744073709551615", "2147483648", "32768",
	"00000000-0000-0000-0000-000000000000", "2026-01-01T00:00:00+24:00", "2026-01-01T00:00:00-24:60", "0000-01-01T00:00:00+23:59",
	"9999-12-31T23:59:59-23:59", "10000-01-01T00:00:00Z", "infinity", "gzip", "zstd", "s2", "br", "gzip, gzip", strings.Repeat("x", 3000),
}

var errOdd = errors.New("it is odd")

// oddMessages are one for each header and odd value, each of a stream of its own as far as the header is not that of the stream.
func oddMessages() (list []*nats.Msg) {
	names := []string{"Another", "Foo", "fOO"}
	for _, rule := range message.Headers() {
		if !strings.HasPrefix(rule.Name, "Nats-") {
			names = append(names, rule.Name)
		}
	}
	for _, name := range names {
		for _, value := range oddValues {
			n := len(list)
			msg := &nats.Msg{Subject: "events.odd.tested", Data: []byte(`{}`), Header: nats.Header{
				message.HeaderEventID: {uuid.NewString()}, message.HeaderStream: {fmt.Sprint("odd-", n)}, message.HeaderType: {"tested"},
				message.HeaderStreamVersion: {"1"}, message.HeaderSequence: {fmt.Sprint(n + 1)}, message.HeaderPartition: {"0"}, "Foo": {"x"},
			}}
			msg.Header[name] = []string{value}
			list = append(list, msg)
		}
	}
	return list
}

// TestNoHeaderStopsAConsumer has handlers fail for every odd message and then succeed: each is parked, dead or malformed, and what comes behind has its effect.
func TestNoHeaderStopsAConsumer(t *testing.T) {
	t.Parallel()
	r := newReading(t, func(c *inbox.Config) { c.MaxAttempts = 2 })
	odd := oddMessages()
	for _, msg := range odd {
		if _, err := r.js.PublishMsgAsync(msg); err != nil {
			t.Fatal(err)
		}
	}
	<-r.js.PublishAsyncComplete()
	r.publish(t, event("s", 1))
	config := quick()
	config.Lanes = 1
	end := r.run(t, config, func(ctx context.Context, tx pgx.Tx, m message.Message) ([]byte, error) {
		if m.Subject == "events.odd.tested" {
			return nil, errOdd
		}
		return apply(ctx, tx, m)
	})
	for most := range 4 { // each wait is for a part of them
		waitFor(t, r.pool, fmt.Sprintf(`SELECT count(*) >= %d FROM inbox_parked`, most*len(odd)/8))
	}
	waitFor(t, r.pool, `SELECT count(*) = 1 FROM effects`)
	waitFor(t, r.pool, `SELECT count(*) = 0 FROM inbox_parked WHERE state = 'failed'`)
	end()
	list, err := r.box.Parked(t.Context(), inbox.ParkedQuery{Limit: 1000})
	if err != nil || len(list) < len(odd)/2 {
		t.Errorf("%d of %d are listed: %v", len(list), len(odd), err)
	}
	var unreadable int // by consumers in other languages
	if err := r.pool.QueryRow(t.Context(), `SELECT count(*) FROM inbox_parked WHERE convert_from(envelope, 'UTF8')::jsonb IS NULL`).Scan(&unreadable); err != nil {
		t.Errorf("what is parked: %v", err)
	}
}

// A message of another's making is refused by the name of what cannot be stored.
func TestWhatCannotBeStoredIsRefused(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	for name, change := range map[string]func(*message.Message){
		message.HeaderEventID:       func(m *message.Message) { m.EventID = uuid.Nil },
		message.HeaderStream:        func(m *message.Message) { m.Stream = "\xff" },
		message.HeaderPartition:     func(m *message.Message) { m.Partition = math.MaxInt64 },
		message.HeaderGeneration:    func(m *message.Message) { m.Generation = math.MaxInt32 + 1 },
		message.HeaderStreamVersion: func(m *message.Message) { m.Version = 0 },
		message.HeaderRecordedAt:    func(m *message.Message) { m.RecordedAt = time.Date(294277, 1, 1, 0, 0, 0, 0, time.UTC) },
		message.HeaderType:          func(m *message.Message) { m.Type = "\x00" },
		"Another":                   func(m *message.Message) { m.Header = nats.Header{"Another": {"\x00"}} },
		"(stream sequence)":         func(m *message.Message) { m.StreamSequence = math.MaxUint64 },
	} {
		_, err := b.box.Process(t.Context(), changed(event("s", 1), change), func(context.Context, pgx.Tx, message.Message) ([]byte, error) { return nil, errOdd })
		var malformed *message.MalformedError
		if !errors.As(err, &malformed) || malformed.Header != name {
			t.Errorf("%s gives %v", name, err)
		}
	}
	for _, zone := range []int{0, 24 * 3600, -24 * 3600, 18 * 3600} { // a handler that fails has it parked
		m := changed(event(fmt.Sprint("zone ", zone), 1), func(m *message.Message) { m.RecordedAt = time.Now().In(time.FixedZone("", zone)) })
		o := b.process(t, m, func(context.Context, pgx.Tx, message.Message) ([]byte, error) { return nil, inbox.Final(errOdd) })
		if o.Status != inbox.Dead {
			t.Errorf("zone %d: it is %s", zone, o.Status)
		}
	}
}

// What the tables refuse of one message is no outage: it is malformed, one that is parked already is dead, and others go on.
func TestWhatTheTablesRefuseIsMalformed(t *testing.T) {
	t.Parallel()
	r := newReading(t)
	first := event("parked", 1)
	first.Sequence = math.MaxInt64
	if o := r.process(t, first, func(context.Context, pgx.Tx, message.Message) ([]byte, error) { return nil, errOdd }); o.Status != inbox.Failed {
		t.Fatalf("it is %s", o.Status)
	}
	if _, err := r.pool.Exec(t.Context(), `ALTER TABLE inbox_streams ALTER COLUMN sequence TYPE integer`); err != nil {
		t.Fatal(err)
	}
	r.pool.Reset() // sessions have plans of what it was
	far := event("far", 1)
	far.Sequence = math.MaxInt64
	r.publish(t, event("s", 1), far, event("s", 2))
	config := quick()
	config.Lanes = 1
	end := r.run(t, config, apply)
	waitFor(t, r.pool, `SELECT count(*) = 2 FROM effects`)
	waitFor(t, r.pool, `SELECT count(*) = 1 FROM inbox_malformed WHERE stream_sequence = 2 AND reason LIKE '%out of range%' AND payload = '{}' AND envelope LIKE '%"far"%'`)
	waitFor(t, r.pool, `SELECT count(*) = 1 FROM inbox_parked WHERE state = 'dead' AND reason LIKE '%out of range%'`)
	end()
	if got := r.effects(t, "s"); !slices.Equal(got, []int64{1, 2}) {
		t.Errorf("effects are %v", got)
	}
}

// Whatever rows of parked messages hold, they are listed, and what cannot be read is dead.
func TestOddRowsOfParkedMessages(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	columns := map[string][]string{
		"due_at": {`'infinity'`, `'-infinity'`, `'294276-12-31Z'`, `'4713-01-01 BC'`, `NULL`}, "parked_at": {`'infinity'`, `'-infinity'`, `'294276-12-31Z'`, `'4713-01-01 BC'`},
		"stream_sequence": {`-1`, `9223372036854775807`}, "attempts": {`2147483647`, `-2147483648`}, "begun": {`2147483647`, `-2147483648`},
		"reason": {`NULL`, `''`}, "subject": {`''`}, "payload": {`''`}, "version": {`-9223372036854775808`, `0`, `9223372036854775807`}, "event_id": {`'00000000-0000-0000-0000-000000000000'`},
		"envelope": {`''`, `'\xff'`, `'{"Sequence": 1e400}'`, `'{"RecordedAt": "10000-01-01T00:00:00Z"}'`, `'null'`, `'{}'`},
	}
	n := 0
	for column, values := range columns {
		for _, value := range values {
			n++
			m := event(fmt.Sprint(column, value), 1)
			b.process(t, m, func(context.Context, pgx.Tx, message.Message) ([]byte, error) { return nil, errOdd })
			_, err := b.pool.Exec(t.Context(), fmt.Sprintf(`UPDATE inbox_parked SET %s = %s WHERE event_id = $1`, column, value), m.EventID)
			if err != nil {
				t.Fatalf("%s = %s: %v", column, value, err)
			}
		}
	}
	for _, state := range []inbox.Status{inbox.Failed, inbox.Waiting, inbox.Dead} {
		if _, err := b.box.Parked(t.Context(), inbox.ParkedQuery{State: state, Limit: 1000}); err != nil {
			t.Errorf("%s: %v", state, err)
		}
	}
	b.process(t, event("behind", 1), func(context.Context, pgx.Tx, message.Message) ([]byte, error) { return nil, errOdd })
	if _, err := b.box.RetryDue(t.Context(), 10*n, apply); err != nil {
		t.Errorf("a retry: %v", err)
	}
	if got := b.effects(t, "behind"); !slices.Equal(got, []int64{1}) {
		t.Errorf("effects behind them are %v", got)
	}
	list, err := b.box.Dead(t.Context(), 1000)
	if err != nil || len(list) == 0 {
		t.Errorf("%d are dead: %v", len(list), err)
	}
}
