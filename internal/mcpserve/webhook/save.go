package webhook

import (
	"context"
	"errors"
	"time"

	"attend/internal/store"
)

// saveEvery is the least time between two writes of how far deliveries have
// come: those of all subscriptions in between go into one.
const saveEvery = 50 * time.Millisecond

// saveLater has a worker's progress written. The caller holds the worker's lock.
func (s *Service) saveLater(w *worker) {
	s.saveMu.Lock()
	s.unsaved[w] = struct{}{}
	s.saveMu.Unlock()
	select {
	case s.saves <- struct{}{}:
	default:
	}
}

// save writes what is unsaved until the context ends, and then once more.
func (s *Service) save(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			s.flushLast(ctx)
			return
		case <-s.saves:
		}
		pause := saveEvery
		if !s.flush(ctx) {
			pause = time.Second
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-t.C:
		}
		t.Stop()
	}
}

// flushLast writes what is unsaved when the context has ended.
func (s *Service) flushLast(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	s.flush(ctx)
}

// flush writes what is unsaved. It reports false when some of it has to wait.
func (s *Service) flush(ctx context.Context) bool {
	s.saveMu.Lock()
	unsaved := s.unsaved
	s.unsaved = make(map[*worker]struct{})
	s.saveMu.Unlock()
	var workers []*worker
	var entries []store.Entry
	for w := range unsaved { //arch:sorted each is an entry of its own
		p, ok, err := w.snapshot()
		if err != nil {
			s.trouble(err)
		}
		if ok {
			workers = append(workers, w)
			entries = append(entries, store.Entry{Fence: w.fence, Puts: []store.Put{p}})
		}
	}
	if len(entries) == 0 {
		return true
	}
	receipts, err := s.opt.Store.Append(ctx, entries...)
	well := err == nil
	for i, w := range workers {
		failure := err
		if err == nil {
			failure = receipts[i].Err
		}
		switch {
		case failure == nil:
		case errors.Is(failure, store.ErrFenced):
			w.cancel() // another owner goes on from what it finds
			s.nudgeWhenGone(w)
		default:
			well = false
			s.trouble(store.Describe("write how far a webhook has come", failure))
			w.mu.Lock()
			s.saveLater(w)
			w.mu.Unlock()
		}
	}
	return well
}

// snapshot writes down how far the worker has come.
func (w *worker) snapshot() (p store.Put, ok bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.removed {
		return store.Put{}, false, nil
	}
	w.saved = w.s.now()
	w.progress.Format, w.progress.ID = rowFormat, w.id
	w.track.save(&w.progress)
	p, err = put(store.SpaceWebhookProgress, w.id, &w.progress)
	return p, err == nil, err
}
