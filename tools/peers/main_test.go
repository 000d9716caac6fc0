package main

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/tools/bench/measure"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == measure.PartCommand { // a child of the benchmark
		main()
		os.Exit(0)
	}
	if len(os.Args) == 3 && os.Args[1] == relayCommand { // a process of TestFaults
		if err := serveRelay(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	clustertest.Main(m)
}

// Every peer publishes every event, which the benchmark's own checker reads back.
func TestPeersPublishEverything(t *testing.T) { //nolint:paralleltest // it uses the whole machine
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	report, err := measure.Run(ctx, measure.Config{
		Program: clustertest.Binary(t), Data: "../../testdata/repo-history-12k.jsonl.gz", Quick: true, Events: 1500, Foreign: 1, Peers: peers(),
		Only: []string{"peers"}, Progress: func(line string) { t.Log(line) },
	})
	if err != nil {
		t.Fatal(err)
	}
	cases := report.Results[0].Cases
	if len(cases) != 2+len(peers()) {
		t.Errorf("%d cases", len(cases))
	}
	for _, c := range cases {
		if c.Samples[0].Events != 1500 || c.Values[measure.ValueRate].Median <= 0 {
			t.Errorf("%s: %+v", c.Name, c.Samples[0])
		}
	}
}
