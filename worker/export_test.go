package worker

// CanaryStreams sets how many streams canaries have; before Run.
func (w *Worker) CanaryStreams(n int) { w.canary.streams = n }
