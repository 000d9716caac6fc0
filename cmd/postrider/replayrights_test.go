package main

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/delivery/natspub/streams"
	"github.com/postrider/postrider/delivery/natspub/wire"
	"github.com/postrider/postrider/delivery/ops/gaps"
	"github.com/postrider/postrider/delivery/ops/replay"
	"github.com/postrider/postrider/delivery/pgstore"
	"github.com/postrider/postrider/internal/testkit/natstest"
	"github.com/postrider/postrider/internal/testkit/pgtest"
)

// The rights that roles.sql gives an operator are enough for every kind of replay and for gaps.
func TestAnOperatorMayReplayAndRepair(t *testing.T) {
	t.Parallel()
	broker := natstest.Start(t, 1)
	broker.Stream(t, 1) // older than the events: what it lacks of them is a gap
	address := replays(t)
	owner := pgtest.Pool(t, address)
	role := pgx.Identifier{"operator_" + strings.ReplaceAll(uuid.NewString(), "-", "")}.Sanitize()
	if _, err := owner.Exec(t.Context(), "CREATE ROLE "+role+";"+strings.ReplaceAll(grantsOf(t, "operator"), "{role}", role)); err != nil {
		t.Fatal(err)
	}
	pool := pgtest.PoolAs(t, address, role)
	store, err := replay.New(t.Context(), pool, "public", pgstore.Relation{})
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range []replay.Spec{
		{Selection: replay.Selection{Stream: "s-1", To: 5}},
		{Kind: replay.RebuildCurrent, Selection: replay.Selection{All: true}},
		{Kind: replay.Retry, Selection: replay.Selection{All: true}},
	} {
		spec.Actor, spec.Reason = "test", "because"
		if _, err := store.Count(t.Context(), spec, nil); err != nil {
			t.Errorf("count %+v: %v", spec, err)
		}
		j, err := store.Create(t.Context(), spec, nil, nil)
		if err != nil {
			t.Errorf("make %+v: %v", spec, err)
			continue
		}
		if _, err := store.Run(t.Context(), j.ID, replay.RunConfig{}); err != nil {
			t.Errorf("run %+v: %v", spec, err)
		}
	}
	spec := replay.Spec{Destination: replay.Shadow, Stream: "REPLAYS", Selection: replay.Selection{All: true}, Actor: "test"}
	if j, err := store.Create(t.Context(), spec, nil, nil); err != nil {
		t.Error(err)
	} else if _, err := store.Cancel(t.Context(), j.ID, "test", ""); err != nil {
		t.Error(err)
	}
	operatorRepairs(t, pool, broker)
	if _, err := owner.Exec(t.Context(), "DROP OWNED BY "+role+"; DROP ROLE "+role); err != nil {
		t.Error(err)
	}
}

func operatorRepairs(t *testing.T, pool *pgxpool.Pool, broker *natstest.Server) {
	t.Helper()
	nc, err := wire.Connect(broker.URL(), "test", slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	subject, err := wire.ParseSubject(wire.DefaultSubject)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := streams.NewStreamReader(nc, "", streams.DefaultStream, subject)
	if err != nil {
		t.Fatal(err)
	}
	store, err := gaps.New(t.Context(), pool, "public", pgstore.Relation{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := store.Detect(t.Context(), gaps.Options{}, stream)
	if err != nil || r.Total() == 0 {
		t.Errorf("found %+v, %v", r, err)
	}
	done, err := store.Repair(t.Context(), gaps.Repair{Actor: "test", Reason: "because"}, stream)
	if err != nil || len(done.Queued) == 0 {
		t.Errorf("repaired %+v, %v", done, err)
	}
}
