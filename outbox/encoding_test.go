package outbox_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/outbox/schema"
)

// A text that the database's encoding has no place for makes an invalid event, by fields that may hold it; a payload is bytes.
func TestACharacterWithoutAPlace(t *testing.T) {
	t.Parallel()
	address := pgtest.Encoded(t, "LATIN1")
	m, err := schema.New(schema.Config{DatabaseURL: address, Schema: "public", Partitions: 8, OthersMayCreate: true})
	if err == nil {
		err = m.Up(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	pool := pgtest.Pool(t, address+"&client_encoding=UTF8")
	producer, err := outbox.New(outbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []outbox.Event{
		{StreamID: "é", Type: "t", Payload: []byte(`"日本"`)},
		{StreamID: "日", Type: "t", Payload: []byte(`1`)},
		{StreamID: "s", Type: "t", Payload: []byte(`1`), Metadata: outbox.Metadata{Headers: map[string]string{"a": "日"}}},
	} {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := producer.AppendTx(t.Context(), tx, e)
			return err
		})
		switch {
		case e.StreamID == "é" && err != nil, e.StreamID != "é" && (!errors.Is(err, outbox.ErrInvalidEvent) || !strings.Contains(err.Error(), "StreamID") || !strings.Contains(err.Error(), "encoding UTF8")):
			t.Errorf("event %+v: %v", e, err)
		}
	}
}
