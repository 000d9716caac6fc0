package part

import (
	"fmt"
	"testing"
)

func TestPartsAreDisjointAndCoverAll(t *testing.T) {
	t.Parallel()
	sizes := map[string]int{}
	for i := range 300 {
		name := fmt.Sprint("name", i)
		in := 0
		for _, value := range []string{"1/3", "2/3", "3/3"} {
			if has(value, name) {
				in++
				sizes[value]++
			}
		}
		if in != 1 || !has("", name) {
			t.Errorf("%s is in %d of three parts", name, in)
		}
	}
	for value, size := range sizes {
		if size < 60 {
			t.Errorf("part %s has %d of 300 names", value, size)
		}
	}
}

func TestAValueThatNamesNoPartPanics(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"0/3", "4/3", "2", "x/y"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q was taken for a part", value)
				}
			}()
			has(value, "name")
		}()
	}
}
