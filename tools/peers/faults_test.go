package main

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/localpg"
	"github.com/postrider/postrider/internal/testkit/clustertest"
	"github.com/postrider/postrider/internal/testkit/faultproxy"
	"github.com/postrider/postrider/internal/testkit/pgtest"
	"github.com/postrider/postrider/internal/testkit/slow"
)

// The variables of `make peers/faults`.
const (
	faultsDuration = "POSTRIDER_FAULTS_DURATION" // of each relay's faults, a Go duration; makes the test run
	faultsSeed     = "POSTRIDER_FAULTS_SEED"     // a whole number
	faultsRelays   = "POSTRIDER_FAULTS_RELAYS"   // parts of names, separated by commas; all by default
	faultsAccounts = "POSTRIDER_FAULTS_ACCOUNTS" // 1: a transaction changes one account; 3: up to three
	faultsFolder   = "POSTRIDER_FAULTS_FOLDER"   // gets peers-faults.txt and peers-faults.json
)

const (
	// calmFirst is how long nothing happens, calmAfter how long after each fault.
	calmFirst, calmAfter = 10 * time.Second, 5 * time.Second
	// drainPatience is for what a relay tries again by a schedule: River waits 1, 16, 81 s.
	drainPatience = 4 * time.Minute
	reviveEvery   = time.Second
)

// strike is one fault of a plan.
type strike struct {
	name    string
	process int
	lasts   time.Duration
}

// deck is each fault once; each process is killed and frozen, since a relay may have but one at work.
func deck() (all []strike) {
	for process := range 3 {
		all = append(all, strike{"SIGKILL", process, 0}, strike{"SIGSTOP", process, 15 * time.Second})
	}
	return append(all,
		strike{"database killed", 0, 2 * time.Second}, strike{"leader killed", 0, 3 * time.Second},
		strike{"database cut", 0, 0}, strike{"brokers cut", 0, 0},
		strike{"database silent", 0, 12 * time.Second}, strike{"brokers silent", 0, 12 * time.Second})
}

// planned is the same for each relay: decks in an order that the seed decides, until the duration is over.
func planned(seed uint64, duration time.Duration) (plan []strike) {
	random := rand.New(rand.NewPCG(seed, 0)) // which faults come is no secret
	for spent := calmFirst; spent < duration; {
		round := deck()
		random.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
		for _, s := range round {
			if spent < duration {
				plan = append(plan, s)
			}
			spent += s.lasts + calmAfter
		}
	}
	return plan
}

// TestFaults tries the same faults on each relay.
func TestFaults(t *testing.T) {
	t.Parallel()
	text := os.Getenv(faultsDuration)
	if text == "" {
		t.Skip("make peers/faults sets " + faultsDuration)
	}
	duration, err := time.ParseDuration(text)
	if err != nil || duration <= calmFirst {
		t.Fatalf("%s must be a duration above %s such as 5m, got %q", faultsDuration, calmFirst, text)
	}
	seed, err := strconv.ParseUint(os.Getenv(faultsSeed), 10, 64)
	if err != nil {
		t.Fatalf("%s must be a whole number, got %q", faultsSeed, os.Getenv(faultsSeed))
	}
	accounts, err := strconv.Atoi(os.Getenv(faultsAccounts))
	if err != nil || accounts != 1 && accounts != mostAccounts {
		t.Fatalf("%s must be 1 or %d, got %q", faultsAccounts, mostAccounts, os.Getenv(faultsAccounts))
	}
	found := &findings{Date: time.Now().UTC().Format(time.DateOnly), Seed: seed, Duration: text, Accounts: accounts}
	t.Cleanup(func() { found.publish(t, os.Getenv(faultsFolder)) })
	chosen := strings.Split(os.Getenv(faultsRelays), ",")
	found.Results = endureAll(t, planned(seed, duration), accounts, func(r relay) bool {
		return slices.ContainsFunc(chosen, func(part string) bool { return strings.Contains(strings.ToLower(r.name), strings.ToLower(part)) })
	})
	if len(found.Results) == 0 {
		t.Errorf("%s: no relay has %q in its name", faultsRelays, os.Getenv(faultsRelays))
	}
}

// endureAll tries the plan on one relay after another.
func endureAll(t *testing.T, plan []strike, accounts int, chosen func(relay) bool) (all []result) {
	t.Helper()
	for _, r := range relays() {
		if chosen(r) {
			t.Run(r.name, func(t *testing.T) { all = append(all, endure(t, r, plan, accounts)) })
		}
	}
	return all
}

func (f *findings) publish(t *testing.T, folder string) {
	t.Helper()
	var table, object bytes.Buffer
	f.table(&table)
	if err := f.json(&object); err != nil {
		t.Error(err)
	}
	for name, text := range map[string][]byte{"peers-faults.txt": table.Bytes(), "peers-faults.json": object.Bytes()} {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
			t.Error(err)
		}
	}
}

// run is a relay under faults.
type run struct {
	relay
	*clustertest.Cluster
	brokers   *clustertest.Brokers
	database  *localpg.Server
	processes []*clustertest.Process
	tally     *tally
	restarts  int
}

// endure starts a relay and its load, has the plan happen, and judges.
func endure(t *testing.T, r relay, plan []strike, accounts int) result {
	t.Helper()
	x := &run{relay: r, brokers: clustertest.StartBrokers(t, clustertest.BrokerConfig{Nodes: 3}), database: pgtest.Server(t, localpg.Config{})}
	r.create(t, x.database.URL())
	x.Cluster = clustertest.New(t, clustertest.Config{
		NATS: x.brokers.Server, Replicas: 3, DatabaseURL: x.database.URL(), Proxied: true,
	})
	if _, err := x.Pool.Exec(t.Context(), writersOwn()); err != nil {
		t.Fatal(err)
	}
	x.tally = newTally(t, x.Ledger)
	subscriber := x.Subscribe(t, x.tally.receive)
	x.processes = make([]*clustertest.Process, r.processes)
	for i := range x.processes {
		x.launch(t, i)
	}
	load := startWriters(t, x.Cluster, r, accounts)
	subscriber.WaitReceived(t, 300)
	x.rest(t, calmFirst)
	faults := map[string]int{}
	for _, s := range plan {
		t.Logf("%s %s, process %d, %s", time.Now().UTC().Format(time.TimeOnly), s.name, s.process%r.processes+1, s.lasts)
		faults[s.name]++
		x.tally.begins(s.name)
		x.strike(t, s)
		x.rest(t, calmAfter)
	}
	x.tally.begins(drain)
	load.end()
	x.Ledger.Finish()
	waiting := x.drain(t)
	subscriber.WaitEnd(t)
	found := x.tally.result(r, faults, waiting)
	found.Restarts = x.restarts
	t.Logf("%+v", found)
	x.judge(t, found)
	return found
}

// judge wants of every relay that it worked, and of Postrider what it promises.
func (x *run) judge(t *testing.T, found result) {
	t.Helper()
	if found.Events == 0 {
		t.Error("nothing was produced: it proves nothing")
	}
	if x.serve == nil && !found.kept() {
		t.Errorf("Postrider broke a promise: %s", x.tally.checker.Report())
	}
}

func (x *run) launch(t *testing.T, i int) {
	t.Helper()
	if x.serve == nil {
		x.processes[i] = x.Run(t)
		return
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	x.processes[i] = clustertest.LaunchBinary(t, x.name, program, x.ProxiedEnvironment(), relayCommand, x.name)
}

// revive starts again what ended by itself, as a service manager does.
func (x *run) revive(t *testing.T) {
	t.Helper()
	for i, p := range x.processes {
		select {
		case <-p.Ended():
			t.Logf("process %d ended by itself: %s", i+1, p.Stderr())
			x.restarts++
			x.launch(t, i)
		default:
		}
	}
}

// rest lets that much time pass: nothing tells when a fault has lasted long enough.
func (x *run) rest(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	again := time.NewTicker(reviveEvery)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
			x.revive(t)
		}
	}
}

func (x *run) strike(t *testing.T, s strike) {
	t.Helper()
	i := s.process % len(x.processes)
	switch s.name {
	case "SIGKILL":
		x.processes[i].Signal(t, syscall.SIGKILL)
		<-x.processes[i].Ended()
		x.launch(t, i)
	case "SIGSTOP":
		x.processes[i].Signal(t, syscall.SIGSTOP)
		x.rest(t, s.lasts)
		x.processes[i].Signal(t, syscall.SIGCONT)
	case "database killed":
		if err := x.database.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		x.rest(t, s.lasts)
		if err := x.database.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		x.Pool.Reset()
	case "leader killed":
		leader := x.brokers.Leader(t)
		x.brokers.Kill(t, leader)
		x.rest(t, s.lasts)
		x.brokers.Restart(t, leader)
		x.brokers.WaitCurrent(t)
	default:
		x.onLinks(t, s)
	}
}

// onLinks cuts or silences the links of all processes.
func (x *run) onLinks(t *testing.T, s strike) {
	t.Helper()
	links := []*faultproxy.Proxy{x.Database.Proxy}
	if strings.HasPrefix(s.name, "brokers") {
		links = nil
		for _, b := range x.Brokers {
			links = append(links, b.Proxy)
		}
	}
	for _, link := range links {
		if s.lasts == 0 {
			link.Cut()
		} else {
			link.Blackhole(faultproxy.Both, true)
		}
	}
	x.rest(t, s.lasts)
	for _, link := range links {
		link.Blackhole(faultproxy.Both, false)
	}
}

// drain waits until everything committed was received and the relay has nothing left to do, and returns what it still has when patience ends.
func (x *run) drain(t *testing.T) (waiting []uuid.UUID) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), drainPatience)
	defer cancel()
	again := time.NewTicker(reviveEvery)
	defer again.Stop()
	for {
		rows, err := x.Pool.Query(t.Context(), x.waiting)
		if err == nil {
			waiting, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		}
		if err != nil {
			t.Fatalf("what does the relay still have? %v", err)
		}
		select {
		case <-x.tally.checker.Drained():
			if len(waiting) == 0 {
				return nil
			}
		default:
		}
		select {
		case <-ctx.Done():
			t.Logf("patience has ended with %d events in the relay's tables", len(waiting))
			return waiting
		case <-again.C:
			x.revive(t)
		}
	}
}

// Each relay works through a few faults, and Postrider keeps its promises.
func TestEveryRelayEndures(t *testing.T) {
	t.Parallel()
	slow.Test(t)
	plan := []strike{{"SIGKILL", 0, 0}, {"database cut", 0, 0}, {"leader killed", 0, time.Second}}
	all := endureAll(t, plan, mostAccounts, func(relay) bool { return true })
	if len(all) != len(relays()) {
		t.Errorf("%d results", len(all))
	}
	for _, found := range all {
		if len(found.Faults) != len(plan) || found.Lost > 0 || found.Standstill <= 0 || found.Longest <= 0 {
			t.Errorf("%+v", found)
		}
	}
}
