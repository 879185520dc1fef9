package source

import (
	"cmp"
	"fmt"

	"attend/internal/engine"
)

// Replace puts another list of sources in force. Those of which unchanged is true
// go on untouched, but for one that has ended, which begins again: whoever has
// mended the cause need not restart the daemon. The others end, and have ended
// when Replace returns; what takes their place goes on from the cursor that is
// stored under its key. An error changes nothing.
func (s *Service) Replace(list []Source, unchanged func(name string) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := make(map[string]*feed)
	var gone []*feed
	for _, f := range s.feeds {
		if unchanged(f.Name) {
			kept[f.Name] = f
		}
	}
	feeds, err := s.feedsOf(list, kept)
	if err != nil {
		return err
	}
	for _, f := range feeds {
		if kept[f.Name] == f {
			f.revive()
			delete(kept, f.Name)
		}
	}
	for _, f := range s.feeds {
		if kept[f.Name] == f || !unchanged(f.Name) {
			gone = append(gone, f)
		}
	}
	stop(gone)
	s.metrics.forget(gone)
	s.metrics.expect(feeds)
	s.feeds = feeds
	s.nudge()
	return nil
}

// revive lets a source begin again whose subscription is over.
func (f *feed) revive() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.worker != nil && f.worker.over() && f.worker.ended.Load() {
		f.worker = nil
	}
}

// feedsOf makes what runs the sources of a list; those that are kept stand in it
// as they are. Sources of one Dialer share a session.
func (s *Service) feedsOf(list []Source, kept map[string]*feed) ([]*feed, error) {
	links := make(map[Dialer]*link)
	for _, f := range kept { //arch:sorted each dialer has one link
		links[f.Dialer] = f.link
	}
	names := make(map[string]bool)
	var feeds []*feed
	for _, src := range list {
		if src.Name == "" || src.Event == "" || src.Dialer == nil || (src.Scope == "") == (src.ScopeOf == nil) || names[src.Name] {
			return nil, fmt.Errorf("source %q: it needs a name of its own, a Dialer, an event, and a scope or a way to one", src.Name)
		}
		names[src.Name] = true
		if f := kept[src.Name]; f != nil {
			feeds = append(feeds, f)
			continue
		}
		l := links[src.Dialer]
		if l == nil {
			l = newLink(src.Dialer)
			links[src.Dialer] = l
		}
		src.Mode = cmp.Or(src.Mode, ModeAuto)
		src.Poll = cmp.Or(src.Poll, DefaultPoll)
		src.MaxBuffered = cmp.Or(src.MaxBuffered, DefaultMaxBuffered)
		src.IdleTimeout = cmp.Or(src.IdleTimeout, DefaultIdleTimeout)
		f := &feed{Source: src, key: src.Key(), link: l}
		f.shard = engine.Shard(f.key)
		f.board.init(s.now(), src.Mode)
		feeds = append(feeds, f)
	}
	return feeds, nil
}
