package ui_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/ui"
)

func TestAPartitionTellsItsStory(t *testing.T) {
	t.Parallel()
	o := newOutbox(t, 1)
	worker := uuid.UUID{15: 1}
	o.join(t, worker, "one", 0)
	dead, behind, published := o.append(t, "a"), o.append(t, "a"), o.append(t, "b")
	o.kill(t, "too large", dead)
	o.park(t, `blocked = true`, behind)
	o.publish(t, published)
	type story struct {
		Partition int        `json:"partition_key"`
		Owner     *uuid.UUID `json:"lease_owner"`
		Host      *string    `json:"owner_hostname"`
		Dead      int
		Why       []string
		Streams   []struct {
			Stream string `json:"stream_id"`
			State  string
			Behind int
		} `json:"blocked_streams"`
		Deliveries []struct {
			First int64 `json:"first_sequence"`
		}
	}
	got := decode[story](t, api(t, o.serve(t, ui.Options{}), http.MethodGet, "/partitions/0", ""))
	if got.Owner == nil || *got.Owner != worker || got.Host == nil || *got.Host != "one" || got.Dead != 1 || len(got.Why) == 0 {
		t.Errorf("the story is %+v", got)
	}
	if len(got.Streams) != 1 || got.Streams[0].Stream != "a" || got.Streams[0].State != "dead" || got.Streams[0].Behind != 1 {
		t.Errorf("its streams are %+v", got.Streams)
	}
	if len(got.Deliveries) != 1 || got.Deliveries[0].First != published {
		t.Errorf("its deliveries are %+v", got.Deliveries)
	}
	plain := serve(t, ui.Options{Source: o.source})
	if got := decode[story](t, api(t, plain, http.MethodGet, "/partitions/0", "")); got.Streams != nil || got.Deliveries != nil || got.Dead != 1 {
		t.Errorf("without an operator: %+v", got)
	}
	wantProblem(t, api(t, plain, http.MethodGet, "/partitions/1", ""), http.StatusNotFound, "not_found", "partition")
	for _, number := range []string{"-1", "+0", "x", "32768", "1.0"} {
		wantProblem(t, api(t, plain, http.MethodGet, "/partitions/"+number, ""), http.StatusBadRequest, "invalid", "partition")
	}
}

func TestTheAuditIsPaged(t *testing.T) {
	t.Parallel()
	o := newOutbox(t, 4)
	server := o.serve(t, ui.Options{})
	for i := range 5 {
		o.exec(t, `INSERT INTO outbox_audit (actor, action, target, reason) VALUES ($1, 'x', '{"a": 9007199254740993}', nullif($2, 'why 0'))`,
			fmt.Sprint("actor ", i), fmt.Sprint("why ", i))
	}
	type page struct {
		Entries []struct {
			Actor  string
			Reason *string
		}
		Next *int64
	}
	var actors []string
	for query := "?limit=2"; ; {
		got := api(t, server, http.MethodGet, "/audit"+query, "")
		wantContains(t, got, `{"a":9007199254740993}`)
		body := decode[page](t, got)
		for _, e := range body.Entries {
			actors = append(actors, e.Actor)
		}
		if body.Next == nil {
			break
		}
		query = fmt.Sprintf("?limit=2&after=%d", *body.Next)
	}
	if fmt.Sprint(actors) != "[actor 4 actor 3 actor 2 actor 1 actor 0]" {
		t.Errorf("the pages hold %v", actors)
	}
}
