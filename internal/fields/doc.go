// Package fields keeps the named Fields: it loads them from the store, lets the
// rules decide, appends what was decided, applies it, answers reads, and pushes
// what changes to subscriptions.
//
// # Authority
//
// The store's log of changes alone says what a Field is. The state in memory
// is the fold of that log up to some number: it is changed only by what has
// been committed, so no reader sees what is not durable, and it can be thrown
// away at any time.
//
// # Order
//
// Each Field has one queue of operations that may write. A run of those that
// look at nothing in the Field (write, draft) is decided, appended and applied
// together, so that many writers share one commit; every other operation is
// decided alone, on the state that those before it have brought about.
//
// # Failure
//
// Another replica that was faster is a conflict: the Field is caught up and the
// operation decided again. When the store loses the answer to an append, nobody
// knows whether it was written. The caller is told so (ErrUnknownOutcome), and
// the Field is caught up from the store before anything else is done with it.
//
// # Pushes
//
// A subscription has no queue. Its state is what its reader was given last (a
// Mark); it is given the current result as soon as that differs. So a slow
// reader costs nothing and gets the last state, and a restart loses nothing.
package fields
