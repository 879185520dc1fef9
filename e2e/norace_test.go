//go:build e2e && !race

package e2e

// raceFlags build the daemon as the tests were built.
var raceFlags []string
