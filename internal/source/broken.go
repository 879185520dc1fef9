package source

import (
	"fmt"
	"time"
)

// What a server sends can break its session: it is nested deeper or longer than
// can be read, or its program ends with it. A source's cursor tells whose it is,
// since it does not move on.
const (
	ownAfter   = 2 // sessions that broke behind one cursor, after which the source gets one of its own
	stuckAfter = 5 // and after which people must look
	steady     = time.Minute
)

// breaks notes that a session broke while it was listened to.
func (w *worker) breaks() {
	if w.broken++; w.broken == stuckAfter {
		w.malformed(1, fmt.Errorf("%d connections have broken behind one cursor: what the server sends next cannot be read "+
			"(it is nested more than 1,000 deep, or longer than %d bytes), or the server ends with it", w.broken, maxAnswerBytes))
	}
}

// moved notes that the server has brought the source on.
func (w *worker) moved() { w.tries, w.broken = 0, 0 }

// way is the link by which the server is asked: one of its own for a source that
// would break it for others.
func (w *worker) way() *link {
	switch {
	case w.broken < ownAfter:
		w.share()
	case w.own == nil && w.f.link.shared():
		w.own = newLink(w.f.Dialer)
		w.own.enter()
		w.s.log.Warn("a source gets a connection of its own: the one that it shares keeps breaking", "source", w.f.Name, "server", w.f.Server)
	}
	if w.own != nil {
		return w.own
	}
	return w.f.link
}

// share lets go of a link of the source's own.
func (w *worker) share() {
	if w.own != nil {
		w.own.leave()
		w.own = nil
	}
}
