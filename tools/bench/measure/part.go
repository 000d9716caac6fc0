package measure

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/postrider/postrider/internal/localnats"
)

// The parts of RunPart.
const (
	partNATS       = "nats"
	partNull       = "null"
	partSubscriber = "subscriber"
)

// ErrPart is returned for a part that does not exist.
var ErrPart = errors.New("no such part of a benchmark")

// RunPart runs a child process of a benchmark: it reads its settings from the first line of input, answers in lines, and
// ends when input or ctx does. It is no interface for people.
func RunPart(ctx context.Context, name string, input io.Reader, output io.Writer, log *slog.Logger) error {
	p := &part{input: bufio.NewReader(input), output: json.NewEncoder(output), log: log}
	switch name {
	case partNATS:
		return p.runNATS(ctx)
	case partNull:
		return p.runNull(ctx)
	case partSubscriber:
		return ServeHandler(ctx, input, output, runSubscriber)
	default:
		return fmt.Errorf("%w: %q", ErrPart, name)
	}
}

type part struct {
	input  *bufio.Reader
	output *json.Encoder
	log    *slog.Logger
}

func (p *part) settings(value any) error {
	text, err := p.input.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(text, value)
	}
	if err != nil {
		return fmt.Errorf("settings of the part: %w", err)
	}
	return nil
}

// answer sends the benchmark a line.
func (p *part) answer(value any) error {
	if err := p.output.Encode(value); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	return nil
}

// told waits for a line; false: the end of input.
func (p *part) told(ctx context.Context) bool {
	read := make(chan bool, 1)
	go func() {
		_, err := p.input.ReadString('\n')
		read <- err == nil
	}()
	select {
	case more := <-read:
		return more
	case <-ctx.Done():
		return false
	}
}

// natsSettings are those of the part that runs the broker.
type natsSettings struct {
	Nodes      int  `json:"nodes"`
	SyncAlways bool `json:"sync_always"`
}

type natsAnswer struct {
	URL string `json:"url"`
}

func (p *part) runNATS(ctx context.Context) error {
	var s natsSettings
	if err := p.settings(&s); err != nil {
		return err
	}
	cluster, err := localnats.Start(ctx, localnats.Config{Nodes: s.Nodes, SyncAlways: s.SyncAlways, Logger: p.log})
	if err != nil {
		return err
	}
	if err := p.answer(natsAnswer{cluster.URL()}); err == nil {
		p.told(ctx)
	}
	return cluster.Stop()
}
