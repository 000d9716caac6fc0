package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/postrider/postrider/internal/chaos"
)

// sayEvery is the time between two lines of progress where there is no terminal.
const sayEvery = 5 * time.Second

// The show uses a terminal's alternate screen: its end restores the lines before it, and the scrollback stays free of it.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
)

// watch shows the progress until ended is closed: a screen on a terminal, elsewhere a line for each mishap and each sayEvery.
func (v *show) watch(ended <-chan struct{}) {
	terminal := isTerminal(v.session.stdout) && !v.cmd.JSON && !v.cmd.Verbose
	look := time.NewTicker(250 * time.Millisecond)
	defer look.Stop()
	told, said := 0, time.Now()
	if terminal {
		fmt.Fprint(v.session.stdout, enterScreen)
		defer fmt.Fprint(v.session.stdout, leaveScreen)
	}
	for over := false; !over; {
		select {
		case <-ended:
			over = true
		case <-look.C:
		}
		state := v.engine.State()
		if terminal {
			columns, rows := terminalSize(v.session.stdout)
			fmt.Fprint(v.session.stdout, "\x1b[H"+strings.Join(v.screen(state, columns, rows), "\x1b[K\r\n")+"\x1b[J")
			continue
		}
		for ; told < len(state.Incidents) && state.Incidents[told].Took > 0; told++ {
			v.say("%s", incident(state.Incidents[told]))
		}
		if time.Since(said) >= sayEvery {
			v.say("%s  committed %s, received %s, reordered %d, doubled %d; %s", clock(state.Elapsed), humanize.Comma(int64(state.Committed)),
				humanize.Comma(int64(state.Received)), state.Reordered, state.Duplicates, quietly(state.Quiet))
			said = time.Now()
		}
	}
}

// screen returns the lines for a terminal of that size: the most important first, then as many of the last mishaps as find room.
func (v *show) screen(s chaos.State, columns, rows int) []string {
	lines := []string{fmt.Sprintf("Postrider, while things break   seed %d   %s: %s", v.seed, strings.TrimSpace(clock(s.Elapsed)), s.Phase)}
	if v.monitor != "" {
		lines = append(lines, "monitor "+v.monitor)
	}
	for _, address := range []string{v.databaseURL, v.natsURL} {
		if address != "" {
			lines = append(lines, strings.Split(text.WrapHard(address, columns), "\n")...)
		}
	}
	lines = append(lines, "",
		fmt.Sprintf("committed %s   received %s   under way %s", humanize.Comma(int64(s.Committed)), humanize.Comma(int64(s.Received)), humanize.Comma(int64(s.UnderWay))),
		fmt.Sprintf("lost %d   reordered %d   doubled %d   %s", s.Lost, s.Reordered, s.Duplicates, quietly(s.Quiet)), "")
	for _, m := range s.Members {
		state := fmt.Sprintf("pid %d", m.PID)
		switch {
		case !m.Running:
			state = "killed"
		case m.Frozen:
			state = "frozen"
		}
		lines = append(lines, fmt.Sprintf("worker %d   %-12s %3d partitions  %s", m.Number, state, m.Partitions, strings.Repeat("▪", min(m.Partitions*32/max(v.partitions, 1), 32))))
	}
	lines = append(lines, "")
	for _, t := range s.Tallies() {
		lines = append(lines, tally(t))
	}
	lines = append(lines, "")
	if room := max(rows-len(lines), 0); len(s.Incidents) > 0 {
		for _, i := range s.Incidents[max(0, len(s.Incidents)-room):] {
			lines = append(lines, incident(i))
		}
	}
	lines = lines[:min(len(lines), rows)]
	for i := range lines {
		lines[i] = shortened(lines[i], columns)
	}
	return lines
}

func tally(t chaos.Tally) string {
	return fmt.Sprintf("%-26s %-4s longest recovery %s", t.Kind, fmt.Sprintf("%d×", t.Times), seconds(t.Longest))
}

func incident(i chaos.Incident) string {
	took := "…"
	if i.Took > 0 {
		took = "in " + seconds(i.Took)
	}
	return fmt.Sprintf("%s  %-38s %s %s", clock(i.At), i.Text, i.Then, took)
}

// quietly prints the latency of times without a mishap.
func quietly(q chaos.Quiet) string {
	if q.Events == 0 {
		return "latency not measured yet"
	}
	return fmt.Sprintf("latency undisturbed p50 %.1f ms, p99 %.1f ms", 1e3*q.P50.Seconds(), 1e3*q.P99.Seconds())
}

func clock(d time.Duration) string {
	return fmt.Sprintf("%2d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

type mishapBody struct {
	Kind           string  `json:"kind"`
	Times          int     `json:"times"`
	LongestSeconds float64 `json:"longest_recovery_seconds"`
}

type verdictBody struct {
	devReport

	OK      bool         `json:"ok"`
	Seed    uint64       `json:"seed"`
	Mishaps []mishapBody `json:"mishaps"`
	Failure string       `json:"failure,omitempty"`
	scrutiny
}

// verdict prints the verdict. Its error is silent where the text has said it.
func (v *show) verdict(verdict chaos.Verdict) error {
	r, n := verdict.Report, len(verdict.Incidents)
	body := verdictBody{
		devReport: devReport{
			Committed: r.Committed, Received: r.Received, Lost: r.Lost, Reordered: r.Reordered, Duplicates: r.Duplicates,
			EventsPerSecond: r.EventsPerSecond, LatencyP50: 1e3 * verdict.Quiet.P50.Seconds(), LatencyP99: 1e3 * verdict.Quiet.P99.Seconds(),
			Workers: v.cmd.Workers, Partitions: v.partitions,
		},
		OK: verdict.OK() && v.more.ok(), Seed: v.seed, Mishaps: []mishapBody{},
	}
	if v.more != nil {
		body.scrutiny = *v.more
	}
	for _, t := range verdict.Tallies() {
		body.Mishaps = append(body.Mishaps, mishapBody{t.Kind, t.Times, t.Longest.Seconds()})
	}
	if verdict.Failure != nil {
		body.Failure = verdict.Failure.Error()
	}
	if v.cmd.JSON {
		if err := writeJSON(v.session.stdout, body); err != nil {
			return err
		}
	} else {
		v.say("\n%s in %s: lost %d, reordered %d, doubled %d of %s events", english.Plural(n, "mishap", ""), strings.TrimSpace(clock(verdict.Elapsed)),
			r.Lost, r.Reordered, r.Duplicates, humanize.Comma(int64(r.Committed)))
		for _, t := range verdict.Tallies() {
			v.say("  %s", tally(t))
		}
		v.say("  %s", quietly(verdict.Quiet))
		v.more.tell(v.say)
		v.say("%s\nAgain: %s", v.more.word(verdict.OK()), v.repeat())
	}
	if body.OK {
		return nil
	}
	for _, f := range r.Faults {
		fmt.Fprintln(v.session.stderr, f)
	}
	if verdict.Failure != nil {
		fmt.Fprintln(v.session.stderr, printable(verdict.Failure.Error()))
	}
	return errSilent
}
