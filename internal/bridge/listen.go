package bridge

import (
	"context"
	"net/http"
	"time"
)

// How soon the stream of a session is opened again after it broke.
const (
	listenAgain   = 250 * time.Millisecond
	listenAgainTo = 10 * time.Second
)

// listen passes on what the daemon says of its own accord in a session: a
// stream that the bridge opens once the session has begun, if the daemon offers
// one, and opens again when it breaks.
func (b *bridge) listen(ctx context.Context) {
	stop, stopped := func() {}, make(chan struct{})
	close(stopped)
	for {
		select {
		case <-b.session.confirmed:
		case <-ctx.Done():
			stop()
			<-stopped
			return
		}
		stop() // the stream of the session before
		<-stopped
		var following context.Context
		following, stop = context.WithCancel(ctx)
		stopped = make(chan struct{})
		go func() {
			defer close(stopped)
			b.follow(following)
		}()
	}
}

// follow passes on the stream of the session that there is now. It returns when
// the daemon offers none or does not know the session any more.
func (b *bridge) follow(ctx context.Context) {
	in := b.session.current()
	offered := false
	for wait := listenAgain; ctx.Err() == nil; wait = min(2*wait, listenAgainTo) {
		opened, again := b.hear(ctx, in, offered)
		if !again {
			return
		}
		if opened {
			offered, wait = true, listenAgain
		}
		await(ctx.Done(), wait)
	}
}

// hear reads the stream once. opened tells that there was one, again that it is
// worth another try. offered says that there was one before.
func (b *bridge) hear(ctx context.Context, in sessionState, offered bool) (opened, again bool) {
	req, err := b.newRequest(ctx, http.MethodGet, nil)
	if err != nil {
		return false, false
	}
	req.Header.Set("Accept", typeEvents)
	in.setHeaders(req.Header)
	resp, err := b.opts.HTTP.Do(req)
	if err != nil {
		return false, true
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotFound && offered:
		// The new session, if there will be one, is followed anew.
		_, err := b.renew(ctx, in)
		return false, err != nil
	case resp.StatusCode/100 == 5, resp.StatusCode == http.StatusTooManyRequests:
		return false, true
	case resp.StatusCode != http.StatusOK:
		return false, false
	}
	for got, err := range messages(resp) {
		if err != nil {
			break // it broke
		}
		b.tell(got.raw)
	}
	return true, true
}
