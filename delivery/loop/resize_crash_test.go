package loop_test

import "testing"

// Crashes were counted of the streams that a partition had. Behind a resize it has others, and is not paused for one more.
func TestAResizeForgetsCrashes(t *testing.T) {
	t.Parallel()
	b := setup(t, 4)
	b.append(t, "s", `1`)
	b.exec(t, `UPDATE outbox_partitions SET crashes = 3, carrying = true`)
	for _, to := range []int{8, 3} {
		b.resize(t, to)
		if n := b.number(t, `SELECT count(*) FROM outbox_partitions WHERE crashes > 0 OR carrying`); n != 0 {
			t.Errorf("behind the resize to %d of %[1]d partitions %d have crashes", to, n)
		}
		b.exec(t, `UPDATE outbox_partitions SET crashes = 3, carrying = true`)
	}
}
