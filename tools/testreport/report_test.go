package main

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// reportCase is a stream of events and what becomes of it.
type reportCase struct {
	events string
	least  int
	want   []string
	err    error
}

func reportCases() map[string]reportCase {
	return map[string]reportCase{
		"all kinds": {
			events: `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"noise\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:7: no engine\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"--- SKIP: TestB (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
{"Action":"pass","Package":"p","Elapsed":1.5}`,
			want: []string{"ok    p", "skipped 1: no engine\n", "1 passed, 0 failed, 1 skipped\n"},
		},
		"failed test": {
			events: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:7: \"quoted\"\n"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}`,
			want: []string{`a_test.go:7: "quoted"`, "FAIL  p", "0 passed, 1 failed, 0 skipped\n"},
			err:  errFailed,
		},
		"leak after passing tests": {
			events: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"found unexpected goroutines\n"}
{"Action":"fail","Package":"p"}`,
			want: []string{"found unexpected goroutines", "1 passed, 1 failed, 0 skipped\n"},
			err:  errFailed,
		},
		"race told beside another test": {
			events: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"==================\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"WARNING: DATA RACE\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"Write at 0x00 by goroutine 7:\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"==================\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"noise\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    testing.go:1712: race detected during execution of test\n"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"fail","Package":"p"}`,
			want: []string{"race detected during execution of test\n==================\nWARNING: DATA RACE\nWrite at 0x00 by goroutine 7:\n==================\nFAIL  p"},
			err:  errFailed,
		},
		"does not build": {
			events: `{"Action":"build-output","ImportPath":"p","Output":"undefined: x\n"}
{"Action":"build-fail","ImportPath":"p"}
{"Action":"start","Package":"p"}
{"Action":"fail","Package":"p","FailedBuild":"p"}`,
			want: []string{"undefined: x", "0 passed, 1 failed, 0 skipped\n"},
			err:  errFailed,
		},
		"crash in a test": {
			events: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"panic: no\n"}
{"Action":"fail","Package":"p"}`,
			want: []string{"panic: no", "0 passed, 1 failed, 0 skipped\n"},
			err:  errFailed,
		},
		"stream cut off": {
			events: `{"Action":"run","Package":"p","Test":"TestA"}`,
			want:   []string{"never ended: p TestA", "0 passed, 1 failed, 0 skipped\n"},
			err:    errFailed,
		},
		"all skipped": {
			events: `{"Action":"skip","Package":"p","Test":"TestA"}`,
			least:  1,
			want:   []string{"skipped 1: no reason given\n", "0 passed, 0 failed, 1 skipped\n"},
			err:    errTooFew,
		},
		"nothing at all": {
			events: "go: cannot find main module",
			want:   []string{"cannot find main module", "0 passed, 0 failed, 0 skipped\n"},
			err:    errNothing,
		},
	}
}

func judge(events string, out io.Writer, o options) error {
	report := newReport(out)
	if err := report.read(strings.NewReader(events)); err != nil {
		return err
	}
	return report.conclude(o)
}

func TestReport(t *testing.T) {
	t.Parallel()
	for name, test := range reportCases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			if err := judge(test.events, &out, options{least: test.least}); !errors.Is(err, test.err) {
				t.Errorf("error %v, want %v", err, test.err)
			}
			for _, want := range test.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q in\n%s", want, out.String())
				}
			}
			if strings.Contains(out.String(), "noise") {
				t.Error("the output of a passing test was printed")
			}
		})
	}
}

func TestTotalsAddUp(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "totals")
	const passing = `{"Action":"pass","Package":"p","Test":"TestA"}`
	const failing = `{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:7: no\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"time=now level=INFO\n"}
{"Action":"fail","Package":"p","Test":"TestA"}`
	var runs sync.WaitGroup
	for i := range 64 { // side by side, as the lanes of a run end
		runs.Go(func() {
			events := passing
			if i == 5 {
				events = failing
			}
			if err := judge(events, &strings.Builder{}, options{totals: path}); err != nil && !errors.Is(err, errFailed) {
				t.Error(err)
			}
		})
	}
	runs.Wait()
	var out strings.Builder
	if err := run(t.Context(), &out, nil, options{totals: path, sum: true}); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "--- p TestA\n    a_test.go:7: no\n63 passed, 1 failed, 0 skipped\n"; got != want {
		t.Errorf("the sum is %q, want %q", got, want)
	}
}
