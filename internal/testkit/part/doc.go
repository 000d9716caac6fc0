// Package part chooses a share of the tests that are too long for every commit.
//
// Model: POSTRIDER_PART=2/3 is the second of three parts. A name belongs to one of them, by its hash; without the variable
// everything is chosen. CI takes the part from the commit, so that three parts cover all.
//
// Invariants: the parts of one number are disjoint and cover every name.
//
// Failure handling: a value that names no part panics, since a run that chose nothing would pass.
package part
