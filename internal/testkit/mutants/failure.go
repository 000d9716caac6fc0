package main

// failure is the ways to deal wrongly with what fails.
func failure() []mutant {
	const (
		outage = "return delivery.Outcome{Kind: delivery.Unresolved, Err: fmt.Errorf(\"%w: %w\", delivery.ErrOutage, err)}"
		poison = "^TestAMessageThatEndsItsWorkersDies$"
	)
	return []mutant{
		{
			name: "outage-counts-dedupe", breaks: "P6: attempts are counted while the broker is away",
			test: command{pkg: "delivery", run: "^TestAnOutageCostsNoAttempts$"}, says: "waited in vain|the outage was counted|noticed no outage",
			edits: []edit{{"delivery/natspub/errors.go", outage, "return delivery.Outcome{Kind: delivery.Retry, Err: err}"}},
		},
		{
			name: "outage-counts-fenced", breaks: "P6: attempts are counted while the broker is away",
			test: fenceTest(lateBytes), says: "published through a held link",
			edits: []edit{{step, "\t\t\tr.outcomes[i].Err = err\n", "\t\t\tr.outcomes[i] = delivery.Outcome{Kind: delivery.Retry, Err: err}\n"}},
		},
		{
			name: "ready-passes-parked", breaks: "P2: new rows pass parked ones of their stream",
			test: command{pkg: "delivery", run: "^TestNewEventsWaitBehindParkedOnes$"}, says: "event [0-9]+: .*want blocked",
			edits: []edit{{"delivery/sql/claim_ready.sql", "AND p.global_sequence < o.global_sequence", "AND false"}},
		},
		{
			name: "anyone-leads", breaks: "P1: rows behind a dead one use up what a claim may take",
			test: command{pkg: "delivery", run: "^TestScheduledRowsBehindADeadOneStarveNobody$"}, says: "waited in vain|did not come to an end",
			edits: []edit{{"delivery/sql/claim_parked.sql", "AND e.global_sequence < i.global_sequence", "AND false"}},
		},
		{
			name: "parked-out-of-turn", breaks: "P2: a stream's parked rows pass one that is not due",
			test: command{pkg: "delivery", run: "^TestParkedRowsStopAtTheFirstThatCannotGo$"}, says: "stored .*, want only",
			edits: []edit{{"delivery/claim.go", "cut[key] = cut[key] || m.NotDue", "cut[key] = m.NotDue"}},
		},
		{
			name: "requeue-same-generation", breaks: "P1: a requeued message is the old one again",
			test: command{pkg: "delivery/admin", run: "^TestRequeueBeginsAnewAndKeepsItsPlace$"}, says: "Generation:0",
			edits: []edit{{"delivery/admin/sql/requeue.sql", "generation   = o.generation + 1", "generation   = o.generation"}},
		},
		{
			name: "crashes-never-forgotten", breaks: "P7: a partition stays slow for ever after two crashes",
			test: command{pkg: "delivery", run: poison}, says: "waited in vain for 0 from SELECT crashes",
			edits: []edit{{"delivery/sql/mark_held.sql", "crashes         = 0,", "crashes         = p.crashes,"}},
		},
		{
			name: "suspect-not-noted", breaks: "P7: a message that ends its workers does so for ever",
			test: command{pkg: "delivery", run: poison}, says: "the message does not die",
			edits: []edit{{"delivery/carry.go", "if !r.careful(b.Lease) || len(b.Messages) == 0 {", "if true || len(b.Messages) == 0 {"}},
		},
	}
}
