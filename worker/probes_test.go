package worker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/delivery/pgstore"
)

// However often a worker is scraped, the database is asked at intervals; an
// error leaves the gauges out.
func TestHorizonIsReadAtIntervals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reads int
		var failure error
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(newHorizonCollector(func(context.Context) (pgstore.Horizon, error) {
			reads++
			return pgstore.Horizon{Transactions: 7, Age: time.Minute}, failure
		}))
		want := func(families, asked int) {
			t.Helper()
			got, err := registry.Gather()
			if err != nil || len(got) != families || reads != asked {
				t.Errorf("%d families after %d reads (%v), want %d after %d", len(got), reads, err, families, asked)
			}
		}
		want(2, 1)
		want(2, 1)
		<-time.After(horizonInterval)
		failure = errors.New("away")
		want(0, 2)
		<-time.After(horizonInterval)
		failure = nil
		want(2, 3)
	})
}
