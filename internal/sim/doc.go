// Package sim runs daemons in a world that follows from a seed: the real runner
// on the real store in memory, on virtual time, with everything around them
// made up. Producers send events, some of them twice; people call flush, ask
// for dead letters again, change the policy, silence scopes; judges are slow,
// refuse, fail, answer rubbish or lose their answers; the clock jumps; calls of
// the store fail before their work or after it; daemons are killed at any call
// and are replaced while they still run.
//
// # One seed, one run
//
// A run must be the same each time, to the byte, though the runner has
// goroutines. So everything that it does beside computing (each call of the
// store, each call of the judge) parks at a gate. The world lets one through at
// a time, waits until every goroutine of the bubble is idle (package
// testing/synctest), looks, and lets the next one through. Each passes at an
// instant of its own: its nanoseconds within the millisecond are used for
// nothing else. Timers of the runner last whole milliseconds, so no two of them
// fire at one instant, and there is nothing left for a scheduler to choose.
// That holds for timers that start at two gates. Judge calls that start at one
// have timeouts that differ by scope.
//
// # What is checked
//
// After each step, with faults on: the order of the log, where each
// acknowledged event is, that the log is what the rules make of it, that no
// window has two outcomes, who wrote, when, how often it was tried, and that
// what is stored beside the log agrees with it. At the end faults stop, and all
// that can lead to a decision must do so; package replay must find the same
// decisions.
//
// Must be run in a bubble of testing/synctest. It is a test kit: no part of the
// daemon imports it.
package sim
