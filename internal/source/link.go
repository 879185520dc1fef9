package source

import "context"

// link is the one session that the sources of a server share. It is made when
// it is needed, and closed when nobody needs it.
type link struct {
	dialer  Dialer
	lock    chan struct{} // holds a token while nobody works on what follows
	session Session       // nil while there is none
	users   int
}

func newLink(d Dialer) *link {
	l := &link{dialer: d, lock: make(chan struct{}, 1)}
	l.lock <- struct{}{}
	return l
}

// enter is called before get, by each source that runs.
func (l *link) enter() {
	<-l.lock
	l.users++
	l.lock <- struct{}{}
}

// shared reports whether others use the session too.
func (l *link) shared() bool {
	<-l.lock
	defer func() { l.lock <- struct{}{} }()
	return l.users > 1
}

// leave lets go of the session, and closes it when nobody else has it.
func (l *link) leave() {
	<-l.lock
	l.users--
	if l.users == 0 && l.session != nil {
		l.session.Close()
		l.session = nil
	}
	l.lock <- struct{}{}
}

// get returns the session, or makes one. While one source makes it the others
// wait.
func (l *link) get(ctx context.Context, unrouted func()) (Session, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.lock:
	}
	defer func() { l.lock <- struct{}{} }()
	if l.session != nil {
		return l.session, nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	s, err := l.dialer.Dial(ctx, unrouted)
	if err != nil {
		return nil, err
	}
	l.session = s
	return s, nil
}

// drop closes a session that is over. The next get makes another.
func (l *link) drop(s Session) {
	<-l.lock
	if l.session == s {
		l.session = nil
		s.Close()
	}
	l.lock <- struct{}{}
}
