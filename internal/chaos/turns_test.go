package chaos_test

import (
	"slices"
	"testing"

	"github.com/postrider/postrider/internal/chaos"
)

// The seed alone decides which mishap comes when and whom it strikes, however many numbers a mishap draws.
func TestTheSeedRepeatsTheOrder(t *testing.T) {
	t.Parallel()
	const kinds, rounds = 4, 50
	draw := func(seed uint64, greedy int) (order, victims []int) {
		turns := chaos.NewTurns(seed, kinds)
		for range kinds * rounds {
			kind, random := turns.Next()
			order, victims = append(order, kind), append(victims, random.IntN(3))
			for range greedy {
				random.IntN(3)
			}
		}
		return order, victims
	}
	order, victims := draw(7, 0)
	again, victimsAgain := draw(7, 5)
	if !slices.Equal(order, again) || !slices.Equal(victims, victimsAgain) {
		t.Errorf("seed 7 gave\n%v of %v, then\n%v of %v", order, victims, again, victimsAgain)
	}
	if other, _ := draw(8, 0); slices.Equal(order, other) {
		t.Error("seed 8 gives the same order")
	}
	for round := range slices.Chunk(order, kinds) {
		slices.Sort(round)
		if !slices.Equal(round, []int{0, 1, 2, 3}) {
			t.Fatalf("a round holds %v", round)
		}
	}
	slices.Sort(victims)
	if slices.Equal(slices.Compact(victims), []int{0, 1, 2}) {
		return
	}
	t.Errorf("the victims are %v", victims)
}
