package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/postrider/postrider/delivery/ops"
	"github.com/postrider/postrider/delivery/ops/replay"
)

type replayListCmd struct {
	replayFlags
	Limit  int   `help:"Most replays." default:"20" env:"-"`
	Before int64 `help:"Only replays with lower numbers." placeholder:"ID" env:"-"`
}

func (c *replayListCmd) Run(s *session) error {
	if c.Limit < 1 || c.Before < 0 {
		return fmt.Errorf("%w: --limit must be at least 1 and --before at least 0, got %d and %d", errRefused, c.Limit, c.Before)
	}
	store, pool, err := c.open(s)
	if err != nil {
		return err
	}
	defer pool.Close()
	jobs, err := store.List(s.ctx, c.Before, c.Limit)
	if err != nil {
		return err
	}
	if c.JSON {
		bodies := make([]replay.Body, len(jobs))
		for i, j := range jobs {
			bodies[i] = j.Body()
		}
		return writeJSON(s.stdout, bodies)
	}
	var rows []table.Row
	for _, j := range jobs {
		rows = append(rows, table.Row{
			j.ID, j.Kind, printable(clip(j.Selection.String(), 50)), target(j), shownState(j), progressOf(j), j.Generation,
			j.CreatedAt.Format(time.RFC3339), printable(j.Actor), printable(clip(j.WaitingFor, 60)),
		})
	}
	writeTable(s.stdout, table.Row{"id", "kind", "selection", "to", "state", "done", "generation", "created", "by", "waits"}, rows)
	for _, j := range jobs {
		if text := standing(j); text != "" {
			writeWrapped(s.stdout, text)
		}
	}
	return nil
}

// standing names an idle replay's obstacle and cure; empty: somebody works on it, or it has ended.
func standing(j replay.Job) string {
	ways := fmt.Sprintf("with: postrider replay resume %d, or end it with: postrider replay cancel %d", j.ID, j.ID)
	switch ago := humanize.RelTime(time.Now().Add(-j.Idle), time.Now(), "ago", ""); {
	case j.Waits():
		return fmt.Sprintf("replay %d was asked for from a monitor and waits for a process that serves one; go on without it %s", j.ID, ways)
	case j.Abandoned():
		return fmt.Sprintf("replay %d was interrupted %s; go on %s", j.ID, ago, ways)
	case j.State == replay.Planned:
		return fmt.Sprintf("replay %d is planned, made %s and never begun; begin it %s", j.ID, ago, ways)
	case j.State == replay.Paused:
		return fmt.Sprintf("replay %d was laid aside %s; go on %s", j.ID, ago, ways)
	}
	return ""
}

type replayCancelCmd struct {
	replayFlags
	actorFlags
	ID int64 `arg:"" name:"id" help:"Number of the replay."`
}

func (c *replayCancelCmd) Help() string {
	return `What it has queued is delivered all the same; the rest is left.

Example:
  postrider replay cancel 7 --reason 'wrong day'`
}

func (c *replayCancelCmd) Run(s *session) error {
	store, pool, err := c.open(s)
	if err != nil {
		return err
	}
	defer pool.Close()
	job, err := store.Cancel(s.ctx, c.ID, c.actor(), c.Reason)
	var input *ops.InputError
	if errors.As(err, &input) {
		return replayRefused(input)
	}
	if errors.Is(err, replay.ErrNotFound) || errors.Is(err, replay.ErrEnded) {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	if err != nil {
		return err
	}
	return c.printJob(s.stdout, job)
}

type replayProgress struct {
	statusLine
	shown time.Time
	last  string
	// began dates the first reported step, and dealt is the work done by then.
	began time.Time
	dealt int64
}

func newProgress(out io.Writer) *replayProgress {
	return &replayProgress{statusLine: newStatusLine(out), shown: time.Now()}
}

func (p *replayProgress) say(text string) {
	every := 5 * time.Second
	if p.terminal {
		every = 200 * time.Millisecond
	}
	if text == p.last || time.Since(p.shown) < every {
		return
	}
	p.shown, p.last = time.Now(), text
	p.write(text)
}

func (p *replayProgress) counting(at, end int64) {
	p.say(fmt.Sprintf("counting: sequence %s of %s", humanize.Comma(at), humanize.Comma(end)))
}

func (p *replayProgress) replaying(j replay.Job) {
	text := fmt.Sprintf("replay %d: %s events, sequence %s of %s", j.ID, progressOf(j), humanize.Comma(j.Position), humanize.Comma(j.Last))
	if j.WaitingFor != "" {
		text += "; waits: " + printable(j.WaitingFor)
	}
	p.say(text + p.pace(j))
}

// pace returns the rate, and the time left at that rate.
func (p *replayProgress) pace(j replay.Job) string {
	dealt := j.Replayed + j.Gone + j.Failed
	if p.began.IsZero() {
		p.began, p.dealt = time.Now(), dealt
	}
	took := time.Since(p.began)
	if took < time.Second || dealt == p.dealt {
		return ""
	}
	perSecond := float64(dealt-p.dealt) / took.Seconds()
	left := time.Duration(float64(j.Left()) / perSecond * float64(time.Second)).Round(time.Second)
	return fmt.Sprintf("; %s/s, about %s left", humanize.CommafWithDigits(perSecond, 1), left)
}

func progressOf(j replay.Job) string {
	done := humanize.Comma(j.Replayed + j.Gone + j.Failed)
	if j.Selected == nil {
		return done + " of ?"
	}
	return done + " of " + humanize.Comma(*j.Selected)
}

func shownState(j replay.Job) string {
	if j.Abandoned() {
		return "interrupted"
	}
	return string(j.State)
}

func target(j replay.Job) string {
	if j.Destination == replay.Shadow {
		return j.Stream + ": " + j.Prefix + ".>"
	}
	return "live, to " + strconv.FormatInt(j.Last, 10)
}
