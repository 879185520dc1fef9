// Package replay runs the engine on a virtual clock: the same fold and the
// same owner's moves as the daemon, with no store, no goroutine and no waiting.
// Days pass in the time that the records take to fold, and the same inputs
// give the same log, byte for byte.
//
// A World is told what comes in, and when. Before each input everything that
// the owner of a scope has to do by then is done, at its own instant: windows
// are settled, judges are called and answer as a Script says, timeouts and
// backoffs run out. At one instant slot timers come first, then horizons and
// deadlines, then what comes in.
//
// Package engine's text histories, the command that replays a file, and
// whoever wants to know what the rules make of some events use it.
package replay
