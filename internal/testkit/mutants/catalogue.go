package main

import "slices"

// catalogue is all mutants.
func catalogue() []mutant {
	return slices.Concat(watermark(), database(), stream(), client(), failure(), replays())
}
