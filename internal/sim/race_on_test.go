//go:build race

package sim_test

// The race detector makes a run several times as long.
const (
	defaultSeeds  = 100
	repeatedSeeds = 10
)
