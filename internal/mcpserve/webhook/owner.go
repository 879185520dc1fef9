package webhook

import (
	"context"
	"errors"
	"time"

	"attend/internal/engine"
	"attend/internal/store"
)

const (
	// lapsedKeep is how long the rows of a subscription stay that was not refreshed.
	lapsedKeep = time.Hour
	// writeTimeout bounds a write that is made while something ends.
	writeTimeout = 2 * time.Second
)

// share starts and ends workers, so that there is one for each subscription
// whose shard is this daemon's. It tells whether any shard is.
func (s *Service) share(ctx context.Context) (owns bool) {
	now := s.now()
	s.mu.Lock()
	grants := make([]*grant, 0, len(s.grants))
	for _, g := range s.grants { //arch:sorted each by itself
		grants = append(grants, g)
	}
	for id, w := range s.workers { //arch:sorted each by itself
		if g := s.grants[id]; g == nil {
			w.drop()
		}
		if w.over() {
			delete(s.workers, id)
		}
	}
	s.mu.Unlock()
	for shard := 0; shard < engine.Shards && !owns; shard++ {
		_, owns = s.opt.Fence(shard)
	}
	for _, g := range grants {
		if err := s.assign(ctx, g, now); err != nil {
			s.trouble(err)
		}
	}
	return owns
}

// assign sees to one subscription.
func (s *Service) assign(ctx context.Context, g *grant, now engine.Time) error {
	fence, owns := s.opt.Fence(engine.Shard(g.ID))
	s.mu.Lock()
	w, g := s.workers[g.ID], s.grants[g.ID] // it may have changed meanwhile
	s.mu.Unlock()
	switch {
	case g == nil:
		return nil
	case w != nil && (!owns || w.fence != fence):
		w.cancel()
		s.nudgeWhenGone(w)
		return nil
	case !owns:
		return nil
	}
	g = s.encrypt(ctx, g, w, fence)
	if w != nil {
		if w.differs(g) {
			w.regrant(g)
		}
		if g.Expires != 0 && now >= g.Expires+engine.Time(lapsedKeep.Milliseconds()) {
			s.remove(ctx, w)
		}
		return nil
	}
	p, err := s.progressOf(ctx, g.ID)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.workers[g.ID] != nil || s.grants[g.ID] != g || ctx.Err() != nil {
		return nil // the next look sees to it
	}
	w = newWorker(s, g, p, fence)
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w.cancel = cancel
	s.workers[g.ID] = w
	go w.run(running)
	return nil
}

// encrypt rewrites the row of a grant from before there was a key, and returns
// what to go on with. While a call of its subscriber runs it leaves it to that,
// or to the next look; so it does when it fails.
func (s *Service) encrypt(ctx context.Context, g *grant, w *worker, fence store.Fence) *grant {
	if again := *g; !s.reseal(&again) {
		return g
	}
	leave, free := s.tryEnter(g.ID)
	if !free {
		return g
	}
	defer leave()
	stored, err := s.grantOf(ctx, g.ID)
	if err == nil && stored != nil && s.reseal(stored) {
		err = s.rewrite(ctx, stored, w, fence)
	}
	if err != nil {
		s.trouble(err)
	}
	if err != nil || stored == nil {
		return g
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grants[g.ID] != g {
		return g // it has ended meanwhile
	}
	s.grants[g.ID] = stored
	return stored
}

// rewrite stores a grant again. The worker's lock keeps it from coming after the
// deletion of one that ends; w is nil before there is one.
func (s *Service) rewrite(ctx context.Context, g *grant, w *worker, fence store.Fence) error {
	row, err := put(store.SpaceWebhook, g.ID, g)
	if err != nil {
		return err
	}
	if w != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.removed {
			return nil
		}
	}
	return s.append(ctx, store.Entry{Fence: fence, Puts: []store.Put{row}})
}

// nudgeWhenGone has the shares looked at again when a worker has ended.
func (s *Service) nudgeWhenGone(w *worker) {
	go func() {
		<-w.gone
		s.nudge()
	}()
}

func (w *worker) over() bool {
	select {
	case <-w.gone:
		return true
	default:
		return false
	}
}

func (w *worker) differs(g *grant) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.grant != g && (w.grant.Life != g.Life || w.grant.Refreshes != g.Refreshes)
}

// drop ends a worker whose subscription is no more.
func (w *worker) drop() {
	w.mu.Lock()
	w.removed = true
	w.mu.Unlock()
	w.cancel()
}

// remove deletes a subscription that is over, rows and all.
func (s *Service) remove(ctx context.Context, w *worker) {
	w.drop()
	s.mu.Lock()
	delete(s.grants, w.id)
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout) // the worker's own has ended
	defer cancel()
	if err := s.append(ctx, store.Entry{Fence: w.fence, Puts: s.deletion(w.id)}); err != nil && !errors.Is(err, store.ErrFenced) {
		s.trouble(err)
	}
}

// deletion are the puts that end a subscription.
func (s *Service) deletion(id string) []store.Put {
	return []store.Put{
		{Space: store.SpaceWebhook, Key: id},
		{Space: store.SpaceWebhookProgress, Key: id},
		s.changed(),
	}
}

func (s *Service) changed() store.Put {
	return store.Put{Space: store.SpaceWebhook, Key: keyChange, Value: []byte(s.opt.NewID())}
}

// progressOf reads how far a subscription has come; nil where it has not begun.
func (s *Service) progressOf(ctx context.Context, id string) (*progress, error) {
	b, err := s.opt.Store.Row(ctx, store.SpaceWebhookProgress, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil //nolint:nilnil // there is none, which is no fault
	}
	if err != nil {
		return nil, store.Describe("read how far a webhook has come", err)
	}
	return decodeProgress(b)
}

// stopAll ends all workers and waits for them.
func (s *Service) stopAll() {
	all := s.all()
	for _, w := range all {
		w.cancel()
	}
	for _, w := range all {
		<-w.gone
	}
}
