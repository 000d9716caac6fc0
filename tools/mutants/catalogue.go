package main

import "slices"

// catalogue is all mutants.
func catalogue() []mutant {
	return slices.Concat(watermark(), database(), ownership(), stream(), forgotten(), client(), failure(), worker(), replays(), rights(), monitor(), resizes(), olderDatabase(), operating(), conditions())
}
