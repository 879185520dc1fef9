//go:build e2e && race

package e2e

// raceFlags build the daemon as the tests were built: what real clients do to
// it, the race detector sees.
var raceFlags = []string{"-race"}
