package fields

import (
	"container/list"
	"time"
)

// registry is the Fields in memory. The service's mu guards it.
type registry struct {
	byName map[string]*held
	idle   *list.List  // of *held that nobody uses, longest idle first
	sweep  *time.Timer // set while something is idle
}

func newRegistry() registry {
	return registry{byName: make(map[string]*held), idle: list.New()}
}

// usage is a held Field's place in the registry.
type usage struct {
	users int
	since time.Time     // idle since
	place *list.Element // in idle, while there are no users
}

// hold returns a Field for use; it must be released.
func (s *Service) hold(name string) (*held, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil, ErrStopping
	}
	h := s.loaded.byName[name]
	if h == nil {
		h = newHeld(s, name)
		s.loaded.byName[name] = h
	}
	if h.usage.place != nil {
		s.loaded.idle.Remove(h.usage.place)
		h.usage.place = nil
	}
	h.usage.users++
	s.shrink()
	return h, nil
}

// release gives a Field back.
func (s *Service) release(h *held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.usage.users--
	if h.usage.users > 0 || s.stopped {
		return
	}
	h.usage.since = time.Now()
	h.usage.place = s.loaded.idle.PushBack(h)
	s.shrink()
}

// shrink lets go of Fields that nobody uses: those that are idle for long, and
// the longest idle while there are too many. The caller holds mu.
func (s *Service) shrink() {
	r := &s.loaded
	for e := r.idle.Front(); e != nil; e = r.idle.Front() {
		h, _ := e.Value.(*held)
		old := time.Since(h.usage.since)
		if len(r.byName) <= s.opt.MaxLoaded && old < s.opt.IdleAfter {
			s.sweepIn(s.opt.IdleAfter - old)
			break
		}
		r.idle.Remove(e)
		delete(r.byName, h.name)
	}
	s.metrics.loaded.Set(float64(len(r.byName)))
}

// sweepIn looks for idle Fields again after a while. The caller holds mu.
func (s *Service) sweepIn(d time.Duration) {
	if s.loaded.sweep != nil {
		return
	}
	s.loaded.sweep = time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.loaded.sweep = nil
		if !s.stopped {
			s.shrink()
		}
	})
}

// clear forgets everything. The caller holds the service's mu.
func (r *registry) clear() {
	if r.sweep != nil {
		r.sweep.Stop()
	}
	clear(r.byName)
	r.idle.Init()
}
