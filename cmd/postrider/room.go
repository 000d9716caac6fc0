package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/delivery/pgstore"
)

// manyDead is the number of dead rows in one table that vacuum should have removed long since.
const manyDead = 1_000_000

// roomFindings reports the tables' sizes, tables that only grow, and tables that vacuum neglects.
func roomFindings(ctx context.Context, pool *pgxpool.Pool, schema string, events pgstore.Relation) []finding {
	tables, err := pgstore.Room(ctx, pool, schema, events)
	if err != nil {
		return []finding{{"room", levelError, redact(err.Error())}}
	}
	return judgeRoom(tables)
}

func judgeRoom(tables []pgstore.TableRoom) []finding {
	vacuum := finding{"vacuum", levelOK, "autovacuum looks after all tables"}
	var sizes, neglected []string
	for _, t := range tables {
		text := t.Name + " " + humanize.IBytes(uint64(max(t.Bytes, 0)))
		if !t.Churns {
			text += " (nobody removes its rows)"
		}
		sizes = append(sizes, text)
		switch {
		case t.NoVacuum:
			neglected = append(neglected, fmt.Sprintf("autovacuum passes %s by; to mend it: ALTER TABLE … RESET (autovacuum_enabled), or autovacuum = on", t.Name))
		case t.Churns && t.Dead > manyDead && t.Dead > t.Live:
			neglected = append(neglected, fmt.Sprintf("%s has %s dead rows: see docs/runbook.md, PostriderVacuumHeldBack", t.Name, humanize.Comma(t.Dead)))
		}
	}
	if len(neglected) > 0 {
		vacuum.Level, vacuum.Detail = levelWarning, strings.Join(neglected, "; ")
	}
	return []finding{{"room", levelOK, strings.Join(sizes, ", ")}, vacuum}
}

// fullness is the share of a limit from which on a stream is nearly full.
const fullness = 0.8

// streamRoom reports how full the stream is: a full one stops delivery.
func streamRoom(info *jetstream.StreamInfo) finding {
	const check = "room in the stream"
	c, s := info.Config, info.State
	var limits []string
	level := levelOK
	limit := func(what string, used, most float64, text string) {
		if most <= 0 {
			return
		}
		if limits = append(limits, text+" ("+what+")"); used >= fullness*most && c.Discard == jetstream.DiscardNew {
			level = levelWarning
		}
	}
	limit("max_bytes", float64(s.Bytes), float64(c.MaxBytes), humanize.IBytes(s.Bytes)+" of "+humanize.IBytes(uint64(max(c.MaxBytes, 0))))
	limit("max_msgs", float64(s.Msgs), float64(c.MaxMsgs), fmt.Sprintf("%d of %d messages", s.Msgs, c.MaxMsgs))
	switch {
	case level == levelWarning:
		return finding{check, level, strings.Join(limits, ", ") + ": when it is full, delivery pauses; to mend it: raise the limit"}
	case len(limits) > 0:
		return finding{check, level, strings.Join(limits, ", ")}
	case c.MaxAge > 0:
		return finding{check, level, fmt.Sprintf("%s; it keeps %s", humanize.IBytes(s.Bytes), c.MaxAge)}
	}
	return finding{check, level, humanize.IBytes(s.Bytes) + "; it has no limit and only grows"}
}
