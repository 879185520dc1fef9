// Package ingest takes events in: bodies of POST /v1/ingest, and events that
// other parts of the daemon push.
//
// A body is read as a stream. Lines are taken in one by one, and each stands
// for itself: a good one is committed whatever stands beside it, a bad one is
// refused with what is wrong, where, and how to mend it. What was taken in is
// committed in groups, each one entry of the log. A group is committed when it
// is large enough, when the next bytes are longer in coming than a moment, or
// when the body ends, however it ends; nothing waits for company. So a cut
// connection keeps what came before, and a slow stream is seen as it comes.
//
// What a line may hold is decided strictly (line.go): a reader that takes the
// same bytes for another event than its neighbour does is how an id is
// deduplicated twice or not at all.
//
// An answer of 200 means durable. Of the lines read, each was accepted, was a
// duplicate, or was rejected; the three add up. Sending again is safe for
// every event that has an id.
package ingest

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"attend/internal/engine"
	"attend/internal/store"
)

// Owner is what ingest asks of whoever runs the scopes.
type Owner interface {
	// Policy returns the policy in force, compiled. Events keep its number and
	// the kind that it gives them.
	Policy() *engine.Policy
	// Remembers reports whether the scope is sure to remember the id. No is a
	// hint: the fold decides.
	Remembers(scope string, d engine.Digest) bool
	// Refuses returns why the scope takes no events of this kind for now,
	// "outboxFull" or "windowFull", or "".
	Refuses(scope string, k engine.Kind) string
	// Duplicates waits until the fold has applied the records first to last,
	// which are events of one entry, and says how many were duplicates.
	Duplicates(ctx context.Context, first, last engine.Position) (int, error)
}

// Limits bound what one request can take. A zero field has its default.
type Limits struct {
	GroupLines int           // lines of a group: 2,000
	GroupBytes int           // bytes of its lines: 256 KiB
	GroupWait  time.Duration // how long a group waits for more lines: 20 ms

	MaxRequests      int   // bodies read at once: 256
	MaxExpandedBytes int64 // of a compressed body: 1 GiB
	MaxRatio         int64 // expanded bytes for each compressed one, after the first MiB: 200

	IdleTimeout       time.Duration // without a byte of a body whose length is known: 1 min
	StreamIdleTimeout time.Duration // without a byte of a body that has no known length: 1 h
	CommitTimeout     time.Duration // for one group: 30 s
	WriteTimeout      time.Duration // for one line of a streamed answer: 30 s
}

func (l Limits) withDefaults() Limits {
	orDefault(&l.GroupLines, 2000)
	orDefault(&l.GroupBytes, 256<<10)
	orDefault(&l.GroupWait, 20*time.Millisecond)
	orDefault(&l.MaxRequests, 256)
	orDefault(&l.MaxExpandedBytes, 1<<30)
	orDefault(&l.MaxRatio, 200)
	orDefault(&l.IdleTimeout, time.Minute)
	orDefault(&l.StreamIdleTimeout, time.Hour)
	orDefault(&l.CommitTimeout, 30*time.Second)
	orDefault(&l.WriteTimeout, 30*time.Second)
	return l
}

func orDefault[T int | int64 | time.Duration](v *T, fallback T) {
	if *v <= 0 {
		*v = fallback
	}
}

// Options are what a Handler is made of.
type Options struct {
	Log        store.Log             // required; only Append is used
	Owner      Owner                 // required
	Logger     *slog.Logger          // nil: nothing is logged
	Registerer prometheus.Registerer // nil: nothing is measured
	Limits     Limits
	// Allows reports whether the caller that the context belongs to may write
	// to the scope. nil allows everything.
	Allows func(ctx context.Context, scope string) bool
}

// Handler serves POST /v1/ingest, and takes in what is pushed.
type Handler struct {
	log     store.Log
	owner   Owner
	logger  *slog.Logger
	limits  Limits
	allows  func(ctx context.Context, scope string) bool
	metrics *metrics
	outage  store.Outage

	unmappedNames once
	unknownFields once
	desks         sync.Pool // of *desk
	readers       sync.Pool // of *bufio.Reader

	mu       sync.Mutex
	sessions map[*session]struct{} // bodies being read
	stopping bool
}

// New makes a Handler. It fails when a required option is missing or a metric
// is registered already.
func New(o Options) (*Handler, error) {
	if o.Log == nil || o.Owner == nil {
		return nil, errors.New("make the ingest handler: Log and Owner are required")
	}
	h := &Handler{
		log: o.Log, owner: o.Owner, logger: o.Logger, limits: o.Limits.withDefaults(), allows: o.Allows,
		sessions: make(map[*session]struct{}),
	}
	if h.logger == nil {
		h.logger = slog.New(slog.DiscardHandler)
	}
	h.outage = store.Outage{Logger: h.logger, Of: "ingest"}
	if o.Registerer == nil {
		o.Registerer = prometheus.NewRegistry()
	}
	var err error
	h.metrics, err = newMetrics(o.Registerer)
	return h, err
}

// Stop ends the bodies that stream without a known length: what came is
// committed and answered. Others are read to their end. Bodies that come later
// are refused with 503. It does not wait.
func (h *Handler) Stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopping = true
	for s := range h.sessions {
		if s.endless {
			s.stopped.Store(true)
			s.interrupt()
		}
	}
}

// allowed binds the caller to the question whether it may write to a scope.
func (h *Handler) allowed(ctx context.Context) func(scope string) bool {
	if h.allows == nil {
		return nil
	}
	return func(scope string) bool { return h.allows(ctx, scope) }
}

// newIntake returns an intake and the function that gives back what it
// borrowed.
func (h *Handler) newIntake(ctx context.Context, scope string) (in *intake, done func()) {
	d, ok := h.desks.Get().(*desk)
	if !ok {
		d = &desk{names: make(interned)}
	}
	return &intake{h: h, scope: scope, may: h.allowed(ctx), desk: d}, func() {
		if cap(d.scratch) <= 64<<10 { // one large line must not be kept for ever
			d.reset(nil)
			h.desks.Put(d)
		}
	}
}

// unmapped warns once of a name that no kind matches.
func (h *Handler) unmapped(name string) {
	switch first, last := h.unmappedNames.first(name); {
	case first:
		h.logger.Warn("no kind is set for this event name: as a consequence it can never wake an agent", slog.String("name", name))
	case last:
		h.logger.Warn("more event names without a kind: they are counted and no longer named", slog.Int("named", maxOnce))
	}
}

// strangers counts the unknown fields of a line, and warns once of each name.
func (h *Handler) strangers(d *decoder) {
	h.metrics.unknown.Add(float64(d.unknowns))
	for _, key := range d.unknown {
		name := string(key[:min(len(key), maxName)])
		switch first, last := h.unknownFields.first(name); {
		case first:
			h.logger.Warn("an ingested line has a field that attend does not know: it is ignored", slog.String("field", name))
		case last:
			h.logger.Warn("more unknown fields: they are counted and no longer named", slog.Int("named", maxOnce))
		}
	}
}
