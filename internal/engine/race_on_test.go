//go:build race

package engine_test

// checks is how many scenarios each law meets in a common run: under the race
// detector, which finds nothing in code that runs alone, a few.
const checks = "150"
