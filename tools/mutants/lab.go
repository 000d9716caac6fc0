package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// sideBySide is the number of concurrent tests: they wait for their servers more than they compute.
const sideBySide = 3

// lab runs tests on variants of one module.
type lab struct {
	root   string // of the module
	folder string // for everything temporary
	passed bool   // make test has just passed

	mu       sync.Mutex
	progress io.Writer
	runs     int
	unbroken map[string]func() (binary, complaint string) // test binaries of the tree as it is, by package
}

// newLab works on the module that the folder belongs to. It must be closed.
func newLab(ctx context.Context, at string, progress io.Writer) (*lab, error) {
	cmd := exec.CommandContext(ctx, "go", "env", "GOMOD")
	cmd.Dir = at
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("look for the module: %w", err)
	}
	gomod := strings.TrimSpace(string(out))
	if gomod == "" || gomod == os.DevNull {
		return nil, errors.New("there is no go.mod here or above")
	}
	folder, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return nil, err
	}
	// The servers of tests run as another user when the tests run as root.
	return &lab{root: filepath.Dir(gomod), folder: folder, progress: progress, unbroken: map[string]func() (string, string){}}, os.Chmod(folder, 0o755)
}

func (l *lab) close() error { return os.RemoveAll(l.folder) }

// tryAll makes sure that the mutants fit and that their tests pass without them, and then tries each, those that may take long first.
func (l *lab) tryAll(ctx context.Context, mutants []mutant) ([]result, error) {
	var misfits []error
	for _, m := range mutants {
		err := m.check()
		if err == nil {
			_, err = m.contents(l.root)
		}
		if err != nil {
			misfits = append(misfits, fmt.Errorf("%s: %w", m.name, err))
		}
	}
	if len(misfits) > 0 {
		return nil, errors.Join(misfits...)
	}
	if err := l.baseline(ctx, mutants); err != nil {
		return nil, err
	}
	results := make([]result, len(mutants))
	tried := 0
	trying, within := errgroup.WithContext(ctx)
	trying.SetLimit(sideBySide)
	order := make([]int, len(mutants))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(mutants[b].timeLimit(), mutants[a].timeLimit()) })
	try := func(ctx context.Context, i int) error {
		r, err := l.try(ctx, mutants[i])
		if err != nil {
			return fmt.Errorf("%s: %w", mutants[i].name, err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		results[i] = r
		tried++
		fmt.Fprintf(l.progress, "%d/%d %s: %s (%.0f s)\n%s", min(tried, len(mutants)), len(mutants), r.Name, r.Verdict, r.Seconds, r.tail())
		return nil
	}
	for _, i := range order {
		trying.Go(func() error { return try(within, i) })
	}
	err := trying.Wait()
	// A racy test may miss a mutant on a busy machine: an uncaught one is tried again alone.
	for i := 0; err == nil && i < len(results); i++ {
		if results[i].Verdict != caught && results[i].Verdict != uncompiled {
			err = try(ctx, i)
		}
	}
	return results, err
}

// errBaseline is returned when tests fail without a mutant.
var errBaseline = errors.New("the tests do not pass as they are")

// baseline runs every command that has not just passed once on the tree as it is.
func (l *lab) baseline(ctx context.Context, mutants []mutant) error {
	var done []command
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(sideBySide)
	for _, m := range mutants {
		if slices.Contains(done, m.test) || l.passed && m.test.ordinary() {
			continue
		}
		done = append(done, m.test)
		group.Go(func() error { return l.passes(ctx, m) })
	}
	return group.Wait()
}

// passes makes sure that the mutant's tests pass without it.
func (l *lab) passes(ctx context.Context, m mutant) error {
	start := time.Now()
	v, err := l.variant(ctx, m.test, m.timeLimit(), nil)
	switch {
	case err != nil:
		return err
	case v.output.build != "":
		return fmt.Errorf("%w: %s", errBaseline, v.output.build)
	case !v.output.allPassed():
		return fmt.Errorf("%w: %s -run '%s' %s\n%s", errBaseline, m.test.pkg, m.test.run, m.test.env, v.output.end())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.progress, "unbroken: %s -run '%s' passes (%.0f s)\n", m.test.pkg, m.test.run, time.Since(start).Seconds())
	return nil
}

// try builds one mutant and runs its tests.
func (l *lab) try(ctx context.Context, m mutant) (result, error) {
	start := time.Now()
	v, err := l.variant(ctx, m.test, m.timeLimit(), &m)
	if err != nil {
		return result{}, err
	}
	r := judge(m, v.output)
	r.Seconds = time.Since(start).Seconds()
	return r, nil
}

// variant is a tree with or without a mutant, with its tests' output.
type variant struct {
	lab     *lab
	folder  string
	overlay string
	output  output
}

// variant builds and runs tests, without a mutant those of the tree. An error means that the question was not
// answered.
func (l *lab) variant(ctx context.Context, c command, limit time.Duration, m *mutant) (v variant, err error) {
	l.mu.Lock()
	l.runs++
	v = variant{lab: l, folder: filepath.Join(l.folder, fmt.Sprint(l.runs))}
	l.mu.Unlock()
	if err := os.Mkdir(v.folder, 0o755); err != nil {
		return v, err
	}
	defer func() {
		if e := os.RemoveAll(v.folder); err == nil {
			err = e
		}
	}()
	var binary string
	if m == nil {
		binary, v.output.build = l.unbrokenTests(ctx, c.pkg)()
	} else if binary, err = v.breakTests(ctx, c.pkg, *m); err != nil {
		return v, err
	}
	if v.output.build != "" {
		return v, ctx.Err()
	}
	return v, v.run(ctx, binary, c, limit)
}

// stripped is a flag that saves the linker half of its work: nobody debugs these programs.
const stripped = "-ldflags=-s -w"

// unbrokenTests builds the tests of a package of the tree as it is, once.
func (l *lab) unbrokenTests(ctx context.Context, pkg string) func() (binary, complaint string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unbroken[pkg] == nil {
		binary := filepath.Join(l.folder, fmt.Sprintf("unbroken%d", len(l.unbroken)))
		l.unbroken[pkg] = sync.OnceValues(func() (string, string) {
			v := variant{lab: l}
			v.build(ctx, "test", "-c", stripped, "-o", binary, "./"+pkg)
			return binary, v.output.build
		})
	}
	return l.unbroken[pkg]
}

// breakTests builds the tests of a package with the mutant, after the changed packages, so that the compiler's complaint
// concerns these.
func (v *variant) breakTests(ctx context.Context, pkg string, m mutant) (binary string, err error) {
	if v.overlay, err = m.overlay(v.lab.root, v.folder); err != nil {
		return "", err
	}
	for _, e := range m.edits {
		if filepath.Ext(e.file) != ".go" {
			continue
		}
		if v.build(ctx, "build", "./"+filepath.Dir(e.file)); v.output.build != "" {
			return "", nil
		}
	}
	binary = filepath.Join(v.folder, "tests")
	v.build(ctx, "test", "-c", stripped, "-o", binary, "./"+pkg)
	return binary, nil
}

// build runs the go command. Its complaints are the output's.
func (v *variant) build(ctx context.Context, arguments ...string) {
	cmd := exec.CommandContext(ctx, "go", arguments...)
	cmd.Dir, cmd.Env = v.lab.root, append(os.Environ(), v.flags())
	if out, err := cmd.CombinedOutput(); err != nil {
		v.output.build = fmt.Sprintf("go %s: %v\n%s", strings.Join(arguments, " "), err, out)
	}
}

// flags make every go command use the overlay, also those that tests start.
func (v *variant) flags() string {
	flags := "GOFLAGS=" + os.Getenv("GOFLAGS")
	if v.overlay != "" {
		flags += " -overlay=" + v.overlay
	}
	return flags
}

// grace bounds the end of tests after their own time-out.
const grace = 20 * time.Second

// run runs the tests as the go command would: in the package's folder.
func (v *variant) run(ctx context.Context, binary string, c command, limit time.Duration) error {
	bound, cancel := context.WithTimeout(ctx, limit+grace)
	defer cancel()
	cmd := exec.CommandContext(bound, binary, "-test.v", "-test.failfast", "-test.run="+c.run, "-test.timeout="+limit.String())
	cmd.Dir = filepath.Join(v.lab.root, c.pkg)
	cmd.Env = append(os.Environ(), v.flags(), "TMPDIR="+v.folder)
	if c.env != "" {
		cmd.Env = append(cmd.Env, c.env)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = grace
	err := cmd.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return err
	}
	v.output = read(out.String(), cmd.Dir, err == nil)
	v.output.timedOut = v.output.timedOut || bound.Err() != nil
	return nil
}
