package measure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/localpg"
)

// ErrUnproved is returned when the checker found that events were lost, repeated, reordered or changed.
var ErrUnproved = errors.New("the checker found faults")

// Bench is a running benchmark.
type Bench struct {
	cfg       Config
	postgres  *localpg.Server
	postmaker int  // process id of the server
	decodes   bool // the server's log can be decoded
	databases map[shape]*database
	made      int
	datasets  map[int]*dataset
	filled    map[string]bool // databases of peers
	tested    string          // the program of the relay under test
	version   string          // of the program under test
	done      int             // cases measured
	all       int

	// tamper changes a stream before it is read back, so that tests can try the checker.
	tamper func(context.Context, jetstream.Stream) error
}

// settings of the private server: durable, as in production, and with room.
func settings() map[string]string {
	return map[string]string{
		"shared_buffers": "1GB", "max_wal_size": "8GB", "checkpoint_timeout": "30min", "maintenance_work_mem": "256MB",
		"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on",
	}
}

// Run measures the scenarios of the configuration. When ctx ends it returns the results so far, and an error.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	b, err := start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	report, err := b.run(ctx)
	return report, errors.Join(err, b.stop(ctx))
}

func start(ctx context.Context, cfg Config) (*Bench, error) {
	cfg, err := cfg.WithDefaults()
	if err != nil {
		return nil, err
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if _, err := machineUsage(); err != nil {
		return nil, fmt.Errorf("%w: this needs Linux: %w", ErrConfig, err)
	}
	b := &Bench{cfg: cfg, tested: cfg.Program, databases: map[shape]*database{}, datasets: map[int]*dataset{}, filled: map[string]bool{}}
	if b.version, err = versionOf(ctx, cfg.Program); err != nil {
		return nil, err
	}
	if _, err := b.dataset(cfg.Payload); err != nil {
		return nil, err
	}
	if b.postgres, err = localpg.Start(ctx, localpg.Config{Settings: settings(), Logger: cfg.Logger}); err != nil {
		return nil, err
	}
	if b.postmaker, err = postmaster(b.postgres.DataDir()); err != nil {
		return nil, errors.Join(err, b.stop(ctx))
	}
	return b, nil
}

// versionOf asks a postrider program.
func versionOf(ctx context.Context, program string) (string, error) {
	out, err := exec.CommandContext(ctx, program, "version", "--json").Output()
	var answer struct{ Version string }
	if err == nil {
		err = json.Unmarshal(out, &answer)
	}
	if err != nil {
		return "", fmt.Errorf("%w: program: ask %s for its version: %w", ErrConfig, program, err)
	}
	return answer.Version, nil
}

// postmaster reads the process id of the server in a data directory.
func postmaster(dir string) (int, error) {
	text, err := os.ReadFile(filepath.Join(dir, "postmaster.pid"))
	if err != nil {
		return 0, fmt.Errorf("process of PostgreSQL: %w", err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		return 0, fmt.Errorf("process of PostgreSQL: %w", err)
	}
	return pid, nil
}

func (b *Bench) stop(ctx context.Context) error {
	for _, d := range b.databases {
		d.pool.Close()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
	defer cancel()
	return b.postgres.Stop(ctx)
}

func (b *Bench) dataset(payload int) (*dataset, error) {
	if d := b.datasets[payload]; d != nil {
		return d, nil
	}
	d, err := readDataset(b.cfg.Data, payload)
	if err == nil {
		b.datasets[payload] = d
	}
	return d, err
}

func (b *Bench) say(format string, args ...any) { b.cfg.Progress(fmt.Sprintf(format, args...)) }

// roles of the processors' use in a round.
func (b *Bench) roles(broker *child, relays ...*child) roles {
	r := roles{rolePostgres: {{b.postmaker, true}}, roleBench: {{os.Getpid(), false}}}
	if broker != nil {
		r[roleNATS] = []member{{broker.pid(), false}}
	}
	if kernel, err := os.ReadFile("/proc/2/comm"); err == nil && strings.TrimSpace(string(kernel)) == "kthreadd" {
		r[roleKernel] = []member{{2, true}} // it writes for any writer, and nobody else writes here
	}
	for _, c := range relays {
		r[roleRelay] = append(r[roleRelay], member{c.pid(), false})
	}
	return r
}

// run goes through the scenarios.
func (b *Bench) run(ctx context.Context) (*Report, error) {
	report := &Report{
		Version: b.version, Started: time.Now().UTC(), Processors: runtime.NumCPU(), Machine: machine(),
		Events: b.cfg.Events, Payload: b.cfg.Payload, Partitions: b.cfg.Partitions, Rounds: b.cfg.Rounds, Quick: b.cfg.Quick,
	}
	type planned struct {
		Scenario
		cases []Case
	}
	var plan []planned
	for _, s := range b.cfg.scenarios() {
		if len(b.cfg.Only) > 0 && !slices.Contains(b.cfg.Only, s.Name) {
			continue
		}
		cases := s.cases(b.cfg)
		if b.cfg.Against != "" {
			cases = against(cases)
		}
		if cases = matching(cases, b.cfg.Match); len(cases) > 0 {
			plan = append(plan, planned{s, cases})
			b.all += len(cases) * b.cfg.Rounds
		}
	}
	if len(plan) == 0 {
		return nil, fmt.Errorf("%w: match: no case has a name like %q", ErrConfig, b.cfg.Match)
	}
	for _, p := range plan {
		result := &Result{Scenario: p.Name, About: p.About, Main: p.main, Unit: p.unit}
		for _, c := range p.cases {
			result.Cases = append(result.Cases, &CaseResult{Name: c.Name, Base: c.Base})
		}
		report.Results = append(report.Results, result)
		err := b.measure(ctx, p.cases, result)
		result.conclude()
		if err := errors.Join(err, b.dropDatabases(context.WithoutCancel(ctx))); err != nil {
			return report, fmt.Errorf("scenario %s: %w", p.Name, err)
		}
	}
	report.Ended = time.Now().UTC()
	return report, nil
}

// matching keeps the cases whose names match the pattern, and their bases.
func matching(cases []Case, pattern string) []Case {
	wanted, names := map[string]bool{}, regexp.MustCompile(pattern)
	for _, c := range cases {
		if names.MatchString(c.Name) {
			wanted[c.Name] = true
			wanted[c.Base] = true
		}
	}
	return slices.DeleteFunc(cases, func(c Case) bool { return !wanted[c.Name] })
}

// turns returns the order of n cases in a round. Every other round goes backwards, since a case inherits the state its
// predecessor left: warm caches, a file system that writes.
func turns(n, round int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	if round%2 == 1 {
		slices.Reverse(order)
	}
	return order
}

// measure runs the cases in turns.
func (b *Bench) measure(ctx context.Context, cases []Case, result *Result) error {
	for round := range b.cfg.Rounds {
		for _, i := range turns(len(cases), round) {
			c := cases[i]
			sample, err := b.sample(ctx, c)
			if err != nil {
				return fmt.Errorf("round %d, %s: %w", round+1, c.Name, err)
			}
			b.done++
			result.Cases[i].Samples = append(result.Cases[i].Samples, sample)
			mark := ""
			if sample.Disturbed {
				mark = ", DISTURBED"
			}
			b.say("%d/%d round %d %s: %s = %.4g %s, others used %.1f %% of the machine%s", b.done, b.all, round+1, result.Scenario, c.Name,
				sample.Values[result.Main], result.Unit, 100*sample.Foreign, mark)
		}
	}
	return nil
}

// sample measures a case, and again where others disturbed it or it failed; the least disturbed measurement counts.
func (b *Bench) sample(ctx context.Context, c Case) (Sample, error) {
	var best Sample
	for n := 0; ; n++ {
		sample, err := c.run(ctx, b)
		if errors.Is(err, errUnheard) && n < b.cfg.Repeats {
			b.say("%s: %v; it is measured again", c.Name, errUnheard)
			continue
		}
		if err != nil {
			return sample, err
		}
		sample.Disturbed = sample.Foreign > b.cfg.Foreign
		if best.Values == nil || sample.Foreign < best.Foreign {
			best = sample
		}
		if !best.Disturbed || n == b.cfg.Repeats {
			best.Repeated = n
			return best, nil
		}
		b.say("%s: others used %.1f %% of the machine; it is measured again", c.Name, 100*sample.Foreign)
	}
}

// machine describes the processor in a line.
func machine() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(text)) {
		if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
