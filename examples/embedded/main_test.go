package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/ui"
)

func TestMain(m *testing.M) { clustertest.Main(m) }

// An order's event arrives, the monitor shows it to those who may look, and on a signal everything is given back.
func TestAnOrderIsDelivered(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, clustertest.Config{Partitions: 8, NoStream: true})
	ctx, interrupt := context.WithCancel(t.Context())
	listening, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- run(ctx, program{
			database: c.DatabaseURL, nats: c.NATS.URL(), address: "127.0.0.1:0", out: io.Discard,
			people: users{"guest": {"secret", ui.AccessReadOnly}}, listening: func(url string) { listening <- url },
		})
	}()
	var at string
	select {
	case at = <-listening:
	case err := <-ended:
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	call := func(method, path, password string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, at+path, strings.NewReader(url.Values{"amount": {"250"}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.SetBasicAuth("guest", password)
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
	if code, body := call(http.MethodPost, "/orders", ""); code != http.StatusCreated {
		t.Fatalf("an order is answered with %d: %s", code, body)
	}
	want := `{"amount":250,"order":1}`
	if got := first(t, c); got != want {
		t.Errorf("%s arrived, want %s", got, want)
	}
	if code, _ := call(http.MethodGet, mount+"/api/v1/summary", "wrong"); code != http.StatusUnauthorized {
		t.Errorf("a wrong password is answered with %d", code)
	}
	if code, body := call(http.MethodGet, mount+"/api/v1/workers", "secret"); code != http.StatusOK || !strings.Contains(body, "active") {
		t.Errorf("the monitor answers %d: %s", code, body)
	}
	interrupt()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
	left := c.Count(t, `SELECT (SELECT count(*) FROM outbox_workers) + (SELECT count(*) FROM outbox_partitions WHERE lease_owner IS NOT NULL)`)
	if left != 0 {
		t.Errorf("%d workers and leases are left", left)
	}
}

// first is the body of the first event.
func first(t *testing.T, c *clustertest.Cluster) string {
	t.Helper()
	consumer, err := c.NATS.JetStream(t).OrderedConsumer(t.Context(), "EVENTS", jetstream.OrderedConsumerConfig{FilterSubjects: []string{"events.>"}})
	if err != nil {
		t.Fatal(err)
	}
	message, err := consumer.Next(jetstream.FetchMaxWait(clustertest.Patience))
	if err != nil {
		t.Fatal(err)
	}
	if subject := message.Subject(); subject != "events.shop.order%2Eplaced" {
		t.Errorf("it arrived on %s", subject)
	}
	return fmt.Sprint(string(message.Data()))
}
