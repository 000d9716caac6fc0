package measure

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// ErrConfig is wrapped by every error of Config.Validate, which names the field.
var ErrConfig = errors.New("bench configuration")

// Limits of the configuration.
const (
	mostEvents  = 20_000_000
	leastBody   = 64
	mostBody    = 512 << 10
	mostRounds  = 100
	mostRate    = 100_000
	leastSteady = 500 * time.Millisecond
)

// Config holds the settings of a benchmark.
type Config struct {
	// Program is the postrider program under test. Required.
	Program string
	// Parts is the program that runs the parts, called with PartCommand. Defaults to this process's own.
	Parts string
	// Peers are measured in a scenario "peers", which exists when they do. Defaults to none.
	Peers []Peer
	// Systems are measured in a scenario "latency", which exists when they do. Defaults to none.
	Systems []System
	// Rates are transactions a second of scenario "latency": 1 to 100,000. Defaults to 100 and 1,000.
	Rates []int
	// Against is another build of the program: each case of the relay is measured with it, too, and compared. Defaults to none.
	Against string
	// Relay holds more flags of `postrider run`, for the relay under test. Defaults to none.
	Relay []string
	// Data is a file of JSON lines, plain or gzip, the source of events. Required.
	Data string
	// Events is the number of events of a drain: 64 to 20,000,000. Defaults to 200,000.
	Events int
	// Payload is the size of a payload in bytes: 64 to 524,288. Defaults to 500.
	Payload int
	// Partitions of the outbox where a scenario does not vary them: 1 to 32,767. Defaults to 64.
	Partitions int
	// Rounds is the number of measurements of each case: 1 to 100. Defaults to 5.
	Rounds int
	// Duration is that of a steady or idle case; at least 500 ms. Defaults to 15 s.
	Duration time.Duration
	// Only names the scenarios to run. Defaults to all.
	Only []string
	// Match is a regular expression: it keeps the cases whose names it matches, and their bases. Defaults to all.
	Match string
	// Quick runs one round of few events, as a check, not a measurement.
	Quick bool
	// Foreign is the share of the processors, 0 to 1, that others may use in a round. Defaults to 0.05.
	Foreign float64
	// Repeats bounds the repetitions of a disturbed round: 0 to 10. Defaults to 2; -1 means 0.
	Repeats int
	// Progress receives the progress, one line at a time. Defaults to none.
	Progress func(line string)
	// Logger receives the logs of servers and failed rounds. Defaults to a logger that discards.
	Logger *slog.Logger
}

// WithDefaults fills the fields that were left zero, and makes all sizes small for Quick.
func (c Config) WithDefaults() (Config, error) {
	own, err := os.Executable()
	if err != nil {
		return c, fmt.Errorf("find this program: %w", err)
	}
	c.Parts = cmp.Or(c.Parts, own)
	set := func(field *int, normal, quick int) {
		if *field == 0 {
			if *field = normal; c.Quick {
				*field = quick
			}
		}
	}
	set(&c.Events, 200_000, 5_000)
	set(&c.Payload, 500, 500)
	set(&c.Partitions, 64, 8)
	set(&c.Rounds, 5, 1)
	if c.Duration == 0 {
		if c.Duration = 15 * time.Second; c.Quick {
			c.Duration = time.Second
		}
	}
	if len(c.Rates) == 0 {
		if c.Rates = []int{100, 1000}; c.Quick {
			c.Rates = c.Rates[:1]
		}
	}
	if c.Foreign == 0 {
		c.Foreign = 0.05
	}
	switch {
	case c.Repeats == -1, c.Repeats == 0 && c.Quick:
		c.Repeats = 0
	case c.Repeats == 0:
		c.Repeats = 2
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// scenarios returns all scenarios that this configuration can run.
func (c Config) scenarios() []Scenario {
	all := Scenarios()
	if len(c.Peers) > 0 {
		all = append(all, peerScenario(c.Peers))
	}
	if len(c.Systems) > 0 {
		all = append(all, latencyScenario(c.Systems))
	}
	return all
}

// Validate reports the first field that cannot be used.
func (c Config) Validate() error {
	within := func(name string, value, least, most int) error {
		if value < least || value > most {
			return fmt.Errorf("%w: %s must lie between %d and %d, got %d", ErrConfig, name, least, most, value)
		}
		return nil
	}
	if err := errors.Join(within("events", c.Events, 64, mostEvents), within("payload", c.Payload, leastBody, mostBody),
		within("partitions", c.Partitions, 1, 32767), within("rounds", c.Rounds, 1, mostRounds), within("repeats", c.Repeats, 0, 10)); err != nil {
		return err
	}
	for _, rate := range c.Rates {
		if err := within("rates", rate, 1, mostRate); err != nil {
			return err
		}
	}
	for _, name := range c.Only {
		known := c.scenarios()
		if !slices.ContainsFunc(known, func(s Scenario) bool { return s.Name == name }) {
			names := make([]string, len(known))
			for i, s := range known {
				names[i] = s.Name
			}
			return fmt.Errorf("%w: only: there is no scenario %q; there are %s", ErrConfig, name, strings.Join(names, ", "))
		}
	}
	switch {
	case c.Duration < leastSteady:
		return fmt.Errorf("%w: duration must be at least %s, got %s", ErrConfig, leastSteady, c.Duration)
	case c.Foreign < 0 || c.Foreign > 1:
		return fmt.Errorf("%w: foreign must lie between 0 and 1, got %g", ErrConfig, c.Foreign)
	}
	if _, err := regexp.Compile(c.Match); err != nil {
		return fmt.Errorf("%w: match: %w", ErrConfig, err)
	}
	if c.Program == "" {
		return fmt.Errorf("%w: program is missing: the postrider program to measure", ErrConfig)
	}
	if c.Against != "" {
		if _, err := os.Stat(c.Against); err != nil {
			return fmt.Errorf("%w: against: %w", ErrConfig, err)
		}
	}
	if _, err := os.Stat(c.Data); err != nil {
		return fmt.Errorf("%w: data: %w", ErrConfig, err)
	}
	return nil
}
