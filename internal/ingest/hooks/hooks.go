// Package hooks takes events in from senders that post them in a form of their
// own: GitHub, Alertmanager, whoever sends CloudEvents or Standard Webhooks, and
// any other that a signature scheme and a mapping describe.
//
// Each hook that is configured is a path, POST /v1/hooks/{name}, and has a
// secret of its own: a request that is neither signed with it nor bears it
// reaches nothing. The secret is checked before anything of the body is parsed,
// in a time that tells nothing of it.
//
// What a request brings is taken in by one commit, under the rules of ingest.
// The ids are the sender's own, so that a delivery that is sent again is a
// duplicate. What cannot be taken now is refused in the way that makes its
// sender try again; what can never be taken is refused with what is wrong, and
// keeps nothing else of the request from being taken.
package hooks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"attend/internal/engine"
)

// Path is what the path of every hook begins with; its name is the rest.
const Path = "/v1/hooks/"

// Event is what a request is read as: what a line of ingest may hold.
type Event struct {
	Scope, Name string
	ID          string       // the sender's; "" where it gives none, and the event cannot be deduplicated
	At          *engine.Time // the sender's time; nil for none
	Data        []byte       // a JSON value; nil for none
	Text        string       // what the agent should read

	number int // in the request, from 1; 0 where it brings one alone
	whole  int // bytes of the data as it came, where it was cut while it was read; else 0
}

// Pushed is what became of events, which are numbered from 1.
type Pushed struct {
	Accepted, Duplicates, Rejected int
	Faults                         []Fault // of those that were rejected, which will never pass
}

// Fault is what is wrong with an event, and how to mend it.
type Fault struct {
	Event int    `json:"event"`
	Error string `json:"error"`
}

// Push commits events, all at once. The error is [ErrBusy], wrapped, where one
// of them may pass later and nothing was committed, else the store's.
type Push func(ctx context.Context, events []Event) (Pushed, error)

// ErrBusy reports that a scope takes no events for now.
var ErrBusy = errors.New("the scope is full for now")

// Options are what a Service is made of.
type Options struct {
	Hooks []Hook
	Push  Push // required
	// MaxEventBytes is how large an event of a scope may be; nil bounds nothing.
	// Larger data is cut down to it.
	MaxEventBytes func(scope string) int64
	Now           func() time.Time      // the time that signatures are held against; nil is the machine's
	Logger        *slog.Logger          // nil: nothing is logged
	Registerer    prometheus.Registerer // nil: nothing is measured
}

// Service serves the hooks.
type Service struct {
	hooks   atomic.Pointer[map[string]*receiver] // by name
	push    Push
	limit   func(scope string) int64
	now     func() time.Time
	logger  *slog.Logger
	metrics *metrics

	open, known room // of hooks whose senders sign, and of those whose senders bear something
	desk        *semaphore.Weighted
}

// New makes a Service. It fails on a hook that is not whole: every one of them
// must be signed or bear a token.
func New(o Options) (*Service, error) {
	if o.Push == nil {
		return nil, errors.New("make the hooks: Push is required")
	}
	s := &Service{
		push: o.Push, limit: o.MaxEventBytes, now: o.Now, logger: o.Logger,
		open: newRoom(openSmall, openLarge), known: newRoom(knownSmall, knownLarge), desk: semaphore.NewWeighted(maxParsed),
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	if o.Registerer == nil {
		o.Registerer = prometheus.NewRegistry()
	}
	var err error
	if s.metrics, err = newMetrics(o.Registerer); err != nil {
		return nil, err
	}
	return s, s.Replace(o.Hooks)
}

// Replace puts another list of hooks in force: the next request meets the new
// one. An error, which is [Check]'s, changes nothing.
func (s *Service) Replace(list []Hook) error {
	hooks, err := compile(list)
	if err != nil {
		return err
	}
	for name := range hooks { //arch:sorted each has its own series
		s.metrics.expect(name)
	}
	s.hooks.Store(&hooks)
	return nil
}

// Check refuses what New and Replace would refuse: every hook must have a name of
// its own, and be signed or bear a token.
func Check(list []Hook) error {
	_, err := compile(list)
	return err
}

func compile(list []Hook) (map[string]*receiver, error) {
	hooks := make(map[string]*receiver, len(list))
	for i := range list {
		h := &list[i]
		if _, again := hooks[h.Name]; again || h.Name == "" {
			return nil, fmt.Errorf("make the hooks: the name %q is given twice, or empty", h.Name)
		}
		r, err := h.compile()
		if err != nil {
			return nil, fmt.Errorf("hook %s: %w", h.Name, err)
		}
		hooks[h.Name] = r
	}
	return hooks, nil
}
