package leaks

import "go.uber.org/goleak"

const natsServer = "github.com/nats-io/nats-server/v2/server"

// Known returns the goroutines that nats-server 2.15.2 leaves behind when it shuts down amid atomic batches. The rest of its queue opens up
// to 50 stores of batches behind the closed ones, and a commit that fails on the closed stream removes none: TestAServerStopsAmidBatches of
// natstest shows it each time.
func Known() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreTopFunction(natsServer + ".(*fileStore).flushStreamStateLoop"),
		goleak.IgnoreTopFunction(natsServer + ".(*msgBlock).flushLoop"),
		goleak.IgnoreTopFunction(natsServer + "/ats.Register.func1"),
	}
}

// Patiently runs tests, and then gives stopped servers time to end: a server of NATS that is stopped amid batches writes the rest of its
// queue, and goleak waits for a second.
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
