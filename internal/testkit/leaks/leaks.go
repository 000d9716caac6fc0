package leaks

import "go.uber.org/goleak"

const natsServer = "github.com/nats-io/nats-server/v2/server"

// Known are the goroutines that nats-server 2.15.2 leaves behind when it shuts down while atomic batches arrive:
// what its queue still holds opens up to 50 stores of batches after those of the stream were closed, and a commit that
// fails since the stream is closed removes none of them (TestAServerStopsAmidBatches of natstest does it each time).
func Known() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreTopFunction(natsServer + ".(*fileStore).flushStreamStateLoop"),
		goleak.IgnoreTopFunction(natsServer + ".(*msgBlock).flushLoop"),
		goleak.IgnoreTopFunction(natsServer + "/ats.Register.func1"),
	}
}

// Patiently runs tests, and then gives what they have stopped the time to end: a server of NATS that is stopped amid
// batches writes what its queue still holds, and goleak waits for a second.
func Patiently(tests goleak.TestingM) goleak.TestingM { return patient{tests} }

type patient struct{ tests goleak.TestingM }

func (p patient) Run() int {
	code := p.tests.Run()
	for range 20 {
		if code != 0 || goleak.Find(Known()...) == nil {
			break
		}
	}
	return code
}
