package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/postrider/postrider/coordinator"
	"github.com/postrider/postrider/delivery"
	"github.com/postrider/postrider/delivery/loop"
	"github.com/postrider/postrider/partition"
)

// levelErrorsOnly limits the log to errors, which end the program.
const levelErrorsOnly = slog.LevelError

// tick counts a worker's deliveries of one second, as one JSON line.
type tick struct {
	At        time.Time `json:"at"`
	Worker    string    `json:"worker_id"`
	Claimed   int64     `json:"claimed"`
	Published int64     `json:"published"`
	Skipped   int64     `json:"skipped"`
	Failed    int64     `json:"failed"`
	Retried   int64     `json:"retried"`
	Dead      int64     `json:"dead"`
	Fenced    int64     `json:"fenced"`
	Refused   int64     `json:"refused"`
	Lag       int64     `json:"watermark_lag"`
	InFlight  int       `json:"in_flight"`
	PerSecond float64   `json:"published_per_second"`
	Duration  float64   `json:"duration_seconds"`
	Backoff   float64   `json:"backoff_seconds"`
	Members   int       `json:"active_workers"`
	Desired   []int     `json:"desired_partitions"`
	Owned     []int     `json:"owned_partitions"`
	Acquired  int64     `json:"leases_acquired"`
	Released  int64     `json:"leases_released"`
	Lost      int64     `json:"leases_lost"`
	LastError string    `json:"last_error,omitempty"`
}

// eachSecond calls do each second until the context ends, and once more then.
func eachSecond(ctx context.Context, do func(now time.Time, took time.Duration)) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	at := time.Now()
	for last := false; !last; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			last = true
		}
		now := time.Now()
		do(now, now.Sub(at))
		at = now
	}
}

func watch(ctx context.Context, w *running, how view, window time.Duration, out io.Writer) {
	recent := rates{window: window}
	before, state := w.Stats(), w.State()
	recent.add(time.Now(), before.Published)
	eachSecond(ctx, func(now time.Time, took time.Duration) {
		stats, after := w.Stats(), w.State()
		recent.add(now, stats.Published)
		switch how {
		case viewJSON:
			_ = writeJSON(out, w.tick(now, took, before, stats, state, after))
		case viewTerminal:
			fmt.Fprint(out, "\x1b[H\x1b[2J"+w.screen(stats, recent.perSecond()))
		case viewNone:
		}
		before, state = stats, after
	})
}

// tick returns the differences between two readings.
func (w *running) tick(now time.Time, took time.Duration, before, s loop.Stats, was, state coordinator.State) tick {
	t := tick{
		At: now.UTC(), Worker: w.ID().String(),
		Claimed: s.Claimed - before.Claimed, Published: s.Published - before.Published,
		Skipped: s.Skipped - before.Skipped, Failed: s.Failed - before.Failed,
		Retried: s.Retried - before.Retried, Dead: s.Dead - before.Dead,
		Fenced:  s.Fenced - before.Fenced,
		Refused: s.Refused - before.Refused, Lag: s.Watermark.Lag(),
		InFlight: s.InFlight, Duration: inSeconds(took), Backoff: inSeconds(s.PausedFor),
		Members: state.Members, Desired: numbers(state.Desired), Owned: numbers(state.Owned),
		Acquired: state.Acquired - was.Acquired, Released: state.Released - was.Released, Lost: state.Lost - was.Lost,
	}
	t.PerSecond, t.LastError = perSecond(t.Published, took), newestError(s, now, took)
	return t
}

func perSecond(n int64, took time.Duration) float64 {
	if took <= 0 {
		return 0
	}
	return float64(n) / took.Seconds()
}

// newestError returns the last error if it came within took, else "".
func newestError(s loop.Stats, now time.Time, took time.Duration) string {
	if len(s.Errors) > 0 && now.Sub(s.Errors[0].At) < took {
		return redact(s.Errors[0].Text)
	}
	return ""
}

// inSeconds is the form of all durations in JSON, to the millisecond.
func inSeconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

func numbers(ids []partition.ID) []int {
	list := make([]int, len(ids))
	for i, id := range ids {
		list[i] = int(id)
	}
	return list
}

func (w *running) screen(s loop.Stats, perSecond float64) string {
	state := w.State()
	var b strings.Builder
	section := func(title string, rows ...table.Row) {
		t := table.NewWriter()
		t.SetStyle(table.StyleLight)
		t.SetTitle(title)
		t.AppendRows(rows)
		b.WriteString(t.Render() + "\n")
	}
	monitor := "off"
	if w.Monitor() != nil {
		monitor = w.Monitor().URL()
	}
	section("Worker",
		table.Row{"id", w.ID()}, table.Row{"workers", state.Members}, table.Row{"monitor", monitor},
		table.Row{"in flight", s.InFlight}, table.Row{"paused for", s.PausedFor.Round(time.Millisecond)},
		table.Row{"watermark lag", lag(s.Watermark)})
	section("Throughput",
		table.Row{"published", s.Published, fmt.Sprintf("%.0f/s", perSecond)},
		table.Row{"failed", s.Failed, ""}, table.Row{"retried", s.Retried, ""},
		table.Row{"dead", s.Dead, ""}, table.Row{"skipped", s.Skipped, ""})
	section("Partitions",
		table.Row{"desired", len(state.Desired), ranges(state.Desired)},
		table.Row{"owned", len(state.Owned), ranges(state.Owned)},
		table.Row{"leased, released, lost", fmt.Sprintf("%d, %d, %d", state.Acquired, state.Released, state.Lost), ""})
	var errs []table.Row
	for _, f := range s.Errors {
		errs = append(errs, table.Row{f.At.Format(time.TimeOnly), f.Count, clip(redact(f.Text), 100)})
	}
	if len(errs) > 0 {
		section("Last errors", errs...)
	}
	return b.String()
}

// lag is empty before the first claim, and with --ordering stream.
func lag(w delivery.Watermark) string {
	if w == (delivery.Watermark{}) {
		return "–"
	}
	return fmt.Sprintf("%d sequences", w.Lag())
}

func clip(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most-1]) + "…"
}

// ranges writes ascending numbers as 0-3 7 9, and steps as 0,3,…,63.
func ranges(ids []partition.ID) string {
	if len(ids) > 3 {
		step := ids[1] - ids[0]
		even := true
		for i := 1; i < len(ids); i++ {
			even = even && ids[i]-ids[i-1] == step
		}
		if even && step > 1 {
			return fmt.Sprintf("%d,%d,…,%d", ids[0], ids[1], ids[len(ids)-1])
		}
	}
	var parts []string
	for i := 0; i < len(ids); {
		j := i
		for j+1 < len(ids) && ids[j+1] == ids[j]+1 {
			j++
		}
		if i == j {
			parts = append(parts, fmt.Sprint(ids[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", ids[i], ids[j]))
		}
		i = j + 1
	}
	return clip(strings.Join(parts, " "), 120)
}

type rates struct {
	window time.Duration
	times  []time.Time
	counts []int64
}

func (r *rates) add(at time.Time, count int64) {
	r.times, r.counts = append(r.times, at), append(r.counts, count)
	for len(r.times) > 2 && at.Sub(r.times[1]) >= r.window {
		r.times, r.counts = r.times[1:], r.counts[1:]
	}
}

func (r *rates) perSecond() float64 {
	n := len(r.times) - 1
	if n < 1 {
		return 0
	}
	return perSecond(r.counts[n]-r.counts[0], r.times[n].Sub(r.times[0]))
}
