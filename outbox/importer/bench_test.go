package importer_test

import (
	"testing"
)

// BenchmarkImport loads the real events into a new database each time.
func BenchmarkImport(b *testing.B) {
	file := read(b, history)
	for b.Loop() {
		b.StopTimer()
		bundle := setup(b)
		b.StartTimer()
		bundle.mustRun(b, file)
	}
	b.ReportMetric(float64(historyEvents*b.N)/b.Elapsed().Seconds(), "events/s")
}
