//go:build !race

package engine_test

// checks is how many scenarios each law meets in a common run.
const checks = "1000"
