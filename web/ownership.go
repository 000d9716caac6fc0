package web

import (
	"hash/fnv"
	"maps"
	"slices"
)

// Ownership lists changes of ownership, the newest first.
type Ownership struct {
	Changes []OwnershipChange
	// Begins is the time of the oldest stored change; zero: there is none.
	Begins Moment
	// Unread says that the changes could not be read.
	Unread bool
	// All is the address of all changes, relative to the root.
	All string
}

// OwnershipChange is a change of ownership.
type OwnershipChange struct {
	ID int64
	At Moment
	// Kind is "taken", "moved", "taken over", "retaken", "released", "resizing", "removed" or "solo".
	Kind string
	// From and To are nil for nobody.
	From, To *Owner
	// RanOut is the end of From's lease; zero: it did not run out.
	RanOut Moment
	// Count is the number of changed partitions, Partitions names them: "0–3, 7".
	Count      int
	Partitions string
	// Epoch is that of the one requested partition; 0: all were requested.
	Epoch int64
}

// Owner is a worker as the holder of partitions.
type Owner struct {
	ID, Short, Host string
	Hue             int
}

// OwnershipPage is a page of the history of ownership.
type OwnershipPage struct {
	Shell
	Ownership
	// Timeline draws the history; nil: nothing can be drawn.
	Timeline *Timeline
	// Partition, Since and Until are the filter as it was given; Filtered says that there is one.
	Partition, Since, Until string
	Filtered                bool
	// Older is the address of the next page, Newest that of the first one unless this is it; empty: none.
	Older, Newest string
}

// Hues is the number of owner colours in the style sheet. They are numbered
// around the colour wheel, so that neighbours in number look alike.
const Hues = 12

// OwnerHues gives each owner id a colour number. The numbers follow from the ids alone, so every replica paints the same picture. An owner
// gets the colour its id hashes to unless that is, or looks like, the colour of an owner with a smaller id; ids of version 7 ascend with
// time, so a newcomer recolours nobody. With more owners than colours some share one.
func OwnerHues(ids []string) map[string]int {
	sorted := slices.Clone(ids)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)

	hues := make(map[string]int, len(sorted))
	var taken []int
	for _, id := range sorted {
		if len(taken) == Hues {
			taken = taken[:0]
		}
		hue := pickHue(preferredHue(id), taken)
		taken = append(taken, hue)
		hues[id] = hue
	}
	return hues
}

// AddHue gives one more owner a colour unlike the others', as far as there is one.
func AddHue(hues map[string]int, id string) {
	if _, has := hues[id]; !has {
		hues[id] = pickHue(preferredHue(id), slices.Collect(maps.Values(hues)))
	}
}

// pickHue returns the preferred hue if it is unlike the taken ones, and otherwise the one furthest from them.
func pickHue(preferred int, taken []int) int {
	const apart = 2
	best, bestDistance := preferred, hueDistance(preferred, taken)
	if bestDistance >= apart {
		return best
	}
	for step := 1; step < Hues; step++ {
		hue := (preferred + step) % Hues
		if distance := hueDistance(hue, taken); distance > bestDistance {
			best, bestDistance = hue, distance
		}
	}
	return best
}

// hueDistance returns the number of steps around the wheel to the nearest taken hue.
func hueDistance(hue int, taken []int) int {
	nearest := Hues
	for _, other := range taken {
		steps := (hue - other + Hues) % Hues
		nearest = min(nearest, steps, Hues-steps)
	}
	return nearest
}

func preferredHue(id string) int {
	hash := fnv.New32a()
	// A hash never fails to write.
	_, _ = hash.Write([]byte(id))
	return int(hash.Sum32() % Hues)
}
