//go:build !race

package sim_test

const (
	defaultSeeds  = 1000
	repeatedSeeds = 60
)
