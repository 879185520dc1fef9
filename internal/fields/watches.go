package fields

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"attend/internal/field"
)

// maxNews is how many topics that have changed are remembered one by one.
const maxNews = 1024

// watches are what is subscribed to in one Field. Equal subscriptions are one
// watch. A change is noted in a word where it is applied; which watches it
// concerns is found out beside the writing.
type watches struct {
	kick chan struct{} // there is news, or doubt

	mu      sync.Mutex
	byKey   map[string]*watch
	byTopic map[string]map[*watch]struct{} // that look at one topic only
	wide    map[*watch]struct{}            // that look at everything
	stop    context.CancelFunc             // of the follower; nil while nobody subscribes

	news   map[string]struct{} // topics that changed since the last spread
	all    bool                // something changed that concerns everybody
	number int64               // of the last change noted
	upTo   int64               // every watch that is not stale has seen the changes up to here
}

func (ws *watches) init() {
	ws.kick = make(chan struct{}, 1)
	ws.byKey = make(map[string]*watch)
	ws.byTopic = make(map[string]map[*watch]struct{})
	ws.wide = make(map[*watch]struct{})
	ws.news = make(map[string]struct{})
}

// stir wakes the follower.
func (ws *watches) stir() {
	select {
	case ws.kick <- struct{}{}:
	default:
	}
}

// note remembers what a change that has just been applied may concern. Its
// caller holds the Field's mu.
func (ws *watches) note(state *field.State, c *field.Change) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.number = state.Number()
	if ws.stop == nil || ws.all {
		return
	}
	switch c.Kind {
	case field.KindRegistered, field.KindDeregistered:
		ws.all = true // roles count in every score
	case field.KindSuperseded:
		ws.topic(topicOf(state, c.Old))
		ws.topic(topicOf(state, c.ID))
	default:
		ws.topic(topicOf(state, c.ID))
	}
	ws.stir()
}

func (ws *watches) topic(topic string) {
	if len(ws.news) < maxNews {
		ws.news[topic] = struct{}{}
	} else {
		ws.all = true
	}
}

// topicOf is the topic of an entry or draft as a text. Different topics may
// have the same; then a watch is looked at in vain.
func topicOf(state *field.State, id string) string {
	e, ok := state.Entry(id)
	if !ok {
		e, _ = state.Draft(id)
	}
	return field.Topic(e.Entry)
}

// spread marks the watches that the news concern: they must be looked at.
func (ws *watches) spread() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	switch {
	case ws.all:
		for _, w := range ws.byKey { //arch:sorted each is marked, in whatever order
			w.stale()
		}
	case len(ws.news) > 0:
		for w := range ws.wide { //arch:sorted each is marked, in whatever order
			w.stale()
		}
		for topic := range ws.news { //arch:sorted each is marked, in whatever order
			for w := range ws.byTopic[topic] { //arch:sorted each is marked, in whatever order
				w.stale()
			}
		}
	}
	clear(ws.news)
	ws.all = false
	ws.upTo = ws.number
}

// follow keeps the watches informed while somebody subscribes.
func (h *held) follow(ctx context.Context) {
	defer h.s.end(h)
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.s.stopping:
			return
		case <-h.watches.kick:
		case <-again:
		}
		again = nil
		err := h.current(ctx)
		h.watches.spread()
		if err != nil && ctx.Err() == nil {
			h.s.log.Warn("subscriptions to a field may be behind", slog.String("field", h.name), slog.Any("error", err))
		}
		if err != nil || h.s.opt.Shared {
			again = time.After(h.s.opt.PushEvery)
		}
	}
}

// join returns the watch of a key, new or shared; leave must follow.
func (h *held) join(key string, make func() *watch) (*watch, error) {
	ws := &h.watches
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.byKey[key]
	if w == nil {
		w = make()
		if err := ws.add(h, key, w); err != nil {
			return nil, err
		}
	}
	w.users++
	return w, nil
}

func (ws *watches) add(h *held, key string, w *watch) error {
	if ws.stop == nil {
		if !h.s.begin(h) {
			return ErrStopping
		}
		var ctx context.Context
		ctx, ws.stop = context.WithCancel(context.Background())
		go h.follow(ctx)
		ws.stir() // a shared Field is polled from the first round on
	}
	ws.byKey[key] = w
	if w.wide {
		ws.wide[w] = struct{}{}
		return nil
	}
	if ws.byTopic[w.topic] == nil {
		ws.byTopic[w.topic] = make(map[*watch]struct{})
	}
	ws.byTopic[w.topic][w] = struct{}{}
	return nil
}

// leave lets go of a watch. The last to leave ends the follower.
func (h *held) leave(key string, w *watch) {
	ws := &h.watches
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.users--
	if w.users > 0 {
		return
	}
	delete(ws.byKey, key)
	delete(ws.wide, w)
	if of := ws.byTopic[w.topic]; of != nil {
		delete(of, w)
		if len(of) == 0 {
			delete(ws.byTopic, w.topic)
		}
	}
	if len(ws.byKey) == 0 {
		ws.stop()
		ws.stop = nil
	}
}
