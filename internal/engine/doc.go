// Package engine decides when a scope's window of events settles and what
// becomes of it. It is a pure fold: State.Apply takes one record of the log at
// a time, and the state after it follows from the records, the policies and
// the silences alone. There is no clock, no goroutine, no IO, no randomness
// here; time enters as the stamp of a record or as an argument.
//
// # The life of a window
//
//	events ──▶ open ──close──▶ slot ──verdict──▶ decision
//	             ▲               │  ╲
//	             └── more        │   ╲ no answer, no tries left ──▶ dead letter
//	                             ▼
//	                      wait ──▶ held ──merge with open, at its horizon or at a flush──▶ slot
//
// The fold closes a window; a step records that. What the clock alone closes,
// with no record behind it, is a proposal (State.Propose) until its step
// stands in the log. A pure judge, or a silence, gives its verdict at the
// instant of the close and never takes the slot.
//
// # Who does what
//
// Apply moves the state. The owner of the scope (package runner, or package
// replay on a virtual clock) asks WakeAt, Propose and CallDue what to do,
// appends the steps that Propose, StartCall, Answer and Fail give it, and
// applies them when they come back from the log. Nothing is kept between the
// two: an owner that crashes starts again from the log.
//
// A policy may have a pure judge, or overrides, that look at what events say.
// States then keep the bodies of live windows' events, and who applies or
// proposes fills in what is Missing first.
package engine
