// Package source brings events in from servers of MCP Events (seed, "MCP Events
// sources").
//
// A source is one subscription. What it brings becomes events of one scope, or
// of the scopes that a template makes of the arguments and the data. It streams
// where the server pushes the event type, else it polls. The server's cursor
// stands in the store, written in the same append as the events before it: a
// daemon that is killed goes on exactly where it was, and what the server sends
// twice is known by its eventId.
//
// Each source is run by one daemon. Where replicas share a store it is the one
// that owns the shard which the source's key hashes to, and what it writes
// stands under the fence of that shard: of one that has lost it nothing is
// taken any longer, and another goes on from the cursor.
//
// Everything that can go wrong is one of three: the stream is opened again
// after a second, it is tried again through retryBackoffMs, or the subscription
// has ended and waits for people. Each is told, counted and shown.
package source

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"attend/internal/engine"
	"attend/internal/store"
)

// Mode says how a source gets its events.
type Mode string

// The modes.
const (
	ModeAuto   Mode = "auto"   // stream where the server pushes the event type, else poll
	ModeStream Mode = "stream" // events/stream alone
	ModePoll   Mode = "poll"   // events/poll alone
)

// Defaults of a source's options (seed, "Options").
const (
	DefaultPoll        = 10 * time.Second
	DefaultMaxBuffered = 1000
	DefaultIdleTimeout = 5 * time.Minute
)

// requestTimeout is how long the answer to a request may take that is no
// stream, and so is that of the MCP SDK for JavaScript.
const requestTimeout = time.Minute

// Source is one subscription, and where its events go.
type Source struct {
	Name      string // unlike that of any other source
	Server    string // what people are shown: a URL or a program
	Origin    string // the server, whose cursors are no other's; only its hash is kept
	Dialer    Dialer
	Event     string          // the event type's name
	Arguments json.RawMessage // a JSON object with its keys sorted; nil for none

	Mode        Mode          // "" is ModeAuto
	MaxAge      time.Duration // how far back a cursor may reach; 0 for as far as the server keeps
	MaxEvents   int           // of a page; 0 leaves it to the server
	Poll        time.Duration // between two polls, where the server does not say; 0 is DefaultPoll
	MaxBuffered int           // notifications that may wait; 0 is DefaultMaxBuffered
	IdleTimeout time.Duration // without any notification of a stream; 0 is DefaultIdleTimeout

	// Scope is the scope of every event; "" where ScopeOf tells it.
	Scope string
	// ScopeOf makes the scope of an event of its data. Its error says what the
	// data lacks.
	ScopeOf func(data json.RawMessage) (string, error)
	// Only are patterns of event names: events that match none of them are left
	// out. Empty takes all.
	Only []string
}

// Key names the source's cursor in the store:
// mcp:<name>:<event>:<arguments as sorted JSON>. Whoever changes a part of it
// has another subscription, which starts at its server's now.
func (s *Source) Key() string {
	args := "{}"
	if len(s.Arguments) > 0 {
		args = string(s.Arguments)
	}
	return "mcp:" + s.Name + ":" + s.Event + ":" + args
}

// Event is what a source hands on to be taken in.
type Event struct {
	Scope, Name, ID string
	At              *engine.Time
	Data            json.RawMessage
}

// Batch is what is committed at once.
type Batch struct {
	Gaps   []string // scopes that have lost events before these
	Events []Event
	Put    store.Put   // the cursor behind them
	Fence  store.Fence // under which it is written
}

// Taken tells what became of a batch's events.
type Taken struct {
	Accepted   int
	Duplicates int      // their scope remembers the id
	Refused    int      // they can be no events of attend
	Reasons    []string // of some of those refused
}

// ErrFull says that a scope takes no more events for now (windowFull,
// outboxFull). It is wrapped with which and why.
var ErrFull = errors.New("a scope takes no events for now")

// Intake takes events in under the rules of ingest.
type Intake interface {
	// Take commits a batch: the gaps first, then in one entry the events and the
	// cursor, under the fence. Events that can never pass are left out and
	// counted. Where one may pass later nothing of the batch is committed and
	// the error wraps ErrFull; other errors are the store's.
	Take(ctx context.Context, b *Batch) (Taken, error)
}

// Options are what a Service is made of. All are required but Now.
type Options struct {
	Sources []Source
	Rows    store.Rows // where cursors stand
	Intake  Intake
	Fence   func(shard int) (store.Fence, bool) // the right to write what belongs to a shard
	Policy  func() *engine.Policy               // in force: its retryBackoffMs rule what is tried again
	Now     func() time.Time                    // the store's clock; nil is time.Now

	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Service runs the sources whose shards are this daemon's. It is safe for
// concurrent use.
type Service struct {
	opt     Options
	log     *slog.Logger
	metrics *metrics
	look    chan struct{}

	mu    sync.RWMutex // held to change feeds
	feeds []*feed      // in the order of the configuration
}

// feed is a source, what is known of it, and who runs it.
type feed struct {
	Source
	key   string
	shard int
	link  *link // shared by the sources of one Dialer
	board board

	mu     sync.Mutex
	worker *worker // nil while it runs elsewhere
}

// New makes a Service. Nothing is asked of any server before Run.
func New(o Options) (*Service, error) {
	if o.Rows == nil || o.Intake == nil || o.Fence == nil || o.Policy == nil || o.Logger == nil || o.Registerer == nil {
		return nil, errors.New("source: an option is missing")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Service{opt: o, log: o.Logger, look: make(chan struct{}, 1)}
	var err error
	if s.feeds, err = s.feedsOf(o.Sources, nil); err != nil {
		return nil, err
	}
	if s.metrics, err = newMetrics(o.Registerer, s.all); err != nil {
		return nil, err
	}
	s.metrics.expect(s.feeds)
	return s, nil
}

func (s *Service) now() engine.Time { return engine.Time(s.opt.Now().UnixMilli()) }

// lookEvery is how often it is looked which sources are this daemon's.
const lookEvery = time.Second

// Run runs the sources until the context ends. It must be called once.
func (s *Service) Run(ctx context.Context) error {
	defer s.stopAll()
	for {
		every := lookEvery
		switch owns, any := s.share(ctx); {
		case !any:
			every = math.MaxInt64 // until there are some
		case !owns:
			every = lookEvery / 20 // until the right to write is there
		}
		t := time.NewTimer(every)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-s.look:
		case <-t.C:
		}
		t.Stop()
	}
}

// share starts and ends workers, so that there is one for each source whose
// shard is this daemon's. It tells whether any shard is, and whether there is any
// source.
func (s *Service) share(ctx context.Context) (owns, any bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for shard := 0; shard < engine.Shards && !owns; shard++ {
		_, owns = s.opt.Fence(shard)
	}
	for _, f := range s.feeds {
		fence, mine := s.opt.Fence(f.shard)
		f.mu.Lock()
		w := f.worker
		switch {
		case w != nil && (!mine || w.fence != fence):
			w.cancel()
			if w.over() {
				f.worker = nil
				f.board.elsewhere(s.now())
				s.nudge()
			}
		case w == nil && mine, w != nil && w.over() && !w.ended.Load():
			f.worker = s.start(ctx, f, fence)
		}
		f.mu.Unlock()
	}
	return owns, len(s.feeds) > 0
}

// start runs a worker.
func (s *Service) start(ctx context.Context, f *feed, fence store.Fence) *worker {
	w := newWorker(s, f, fence)
	ctx, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go w.run(ctx)
	return w
}

// nudge has the shares looked at at once.
func (s *Service) nudge() {
	select {
	case s.look <- struct{}{}:
	default:
	}
}

// stopAll ends all workers and waits for them.
func (s *Service) stopAll() {
	stop(s.all())
}

// stop ends the workers of sources and waits for them.
func stop(feeds []*feed) {
	var all []*worker
	for _, f := range feeds {
		f.mu.Lock()
		if f.worker != nil {
			f.worker.cancel()
			all = append(all, f.worker)
		}
		f.mu.Unlock()
	}
	for _, w := range all {
		<-w.gone
	}
}

// all are the sources of this moment.
func (s *Service) all() []*feed {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.feeds
}

// Statuses tells how every source stands, in the order of the configuration.
func (s *Service) Statuses() []Status {
	feeds := s.all()
	all := make([]Status, len(feeds))
	for i, f := range feeds {
		all[i] = f.status()
	}
	return all
}
