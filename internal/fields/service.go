package fields

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"

	"attend/internal/engine"
	"attend/internal/field"
	"attend/internal/store"
)

// Errors of the service, beside *field.Error and those of the store.
var (
	// ErrUnknownOutcome: the operation may or may not have been written. It is
	// wrapped together with what went wrong.
	ErrUnknownOutcome = errors.New("it may or may not have been written: read the field before sending it again, or it may be written twice")
	// ErrBusy: too many operations wait for the Field. Nothing was written.
	ErrBusy = errors.New("too many operations wait for this field: send it again later")
	// ErrUnknownOperation: the Field has no operation of that name.
	ErrUnknownOperation = errors.New("unknown operation")
	// ErrStopping: the daemon is stopping. Nothing was written.
	ErrStopping = errors.New("the daemon is stopping")
)

// Limits of the service.
const (
	maxRequest = 1 << 20          // bytes of an operation's parameters: as much as a body over HTTP may have
	maxWaiting = 4096             // operations that wait for one Field
	maxBatch   = 256              // operations that share a commit
	batchBytes = 1 << 20          // of their parameters; one operation may be alone in more
	pageLimit  = 1000             // changes read at once
	namesLimit = 1000             // names read at once
	maxRetries = 32               // times an operation is decided again because others were faster
	commitTime = 30 * time.Second // for a batch from its first try to its last
)

// Store is what the service needs of a store.
type Store interface {
	Append(ctx context.Context, entries ...store.Entry) ([]store.Receipt, error)
	Head(ctx context.Context) (store.Head, error)
	Now() time.Time
	store.Fields
}

// Options of a Service.
type Options struct {
	Store    Store
	Settings field.Settings
	// Ingest joins the Fields to attention: committed entries and new conflicts
	// become events, of kinds that Policy resolves.
	Ingest bool
	Policy func() *engine.Policy // needed with Ingest
	// NewID draws the ids of entries and drafts, which must not be guessed; nil
	// draws ULIDs.
	NewID func() string
	// PushEvery is the least time between two pushes to one subscription; 0 is
	// a second.
	PushEvery time.Duration
	// Shared says that other replicas write to the same store: a Field is
	// caught up before every operation, and every PushEvery while somebody
	// subscribes to it.
	Shared bool
	// MaxLoaded is how many Fields are kept in memory; 0 is 1,000. Those that
	// nobody uses are let go, longest idle first; those in use are kept, even
	// above the number.
	MaxLoaded int
	// IdleAfter is the time after which a Field that nobody uses is let go; 0
	// is ten minutes.
	IdleAfter  time.Duration
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Service keeps Fields. It is safe for concurrent use. Use New.
type Service struct {
	opt      Options
	store    Store
	log      *slog.Logger
	metrics  *metrics
	places   chan struct{} // one for each large read, or evaluation for a push, that may run at once
	stopping chan struct{}
	work     sync.WaitGroup // drains and followers

	mu      sync.Mutex
	stopped bool
	loaded  registry
}

// New returns a service. It fails when the registerer already has one's
// metrics.
func New(opt Options) (*Service, error) {
	if opt.Ingest && opt.Policy == nil {
		return nil, errors.New("fields: events need a policy to resolve their kinds")
	}
	if opt.NewID == nil {
		opt.NewID = newID
	}
	if opt.PushEvery == 0 {
		opt.PushEvery = time.Second
	}
	if opt.MaxLoaded == 0 {
		opt.MaxLoaded = 1000
	}
	if opt.IdleAfter == 0 {
		opt.IdleAfter = 10 * time.Minute
	}
	m, err := newMetrics(opt.Registerer)
	if err != nil {
		return nil, err
	}
	return &Service{
		opt: opt, store: opt.Store, log: opt.Logger, metrics: m,
		// Half of the machine at most is for what takes long: a write never
		// stands in line behind a thousand evaluations.
		places:   make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
		stopping: make(chan struct{}),
		loaded:   newRegistry(),
	}, nil
}

// newID draws an id that nobody can guess: whoever knows the id of a draft may
// commit it. So no two are related, not even those of one millisecond.
func newID() string { return ulid.MustNew(ulid.Now(), rand.Reader).String() }

// Close waits for what is being written. Operations that wait are refused with
// ErrStopping, and so is everything that comes later; Next returns it too.
func (s *Service) Close() {
	s.mu.Lock()
	if !s.stopped {
		s.stopped = true
		close(s.stopping)
		s.loaded.clear()
	}
	s.mu.Unlock()
	s.work.Wait()
}

// Do carries out one operation on a Field and returns its result, which is
// ready for JSON and not to be changed (docs/field.md, "Operations"). An empty
// name is the Field "default". A Field comes to be by its first change; reading
// one that does not exist gives empty answers.
//
// Errors: *field.Error for what the protocol refuses; ErrUnknownOperation,
// ErrBusy, ErrStopping; the store's, and the context's. Those that leave open
// whether the operation was written wrap ErrUnknownOutcome.
func (s *Service) Do(ctx context.Context, name string, op field.Op, params json.RawMessage) (any, error) {
	if !slices.Contains(field.Ops(), op) {
		return nil, fmt.Errorf("field: %w %q", ErrUnknownOperation, op)
	}
	start := time.Now()
	result, err := s.do(ctx, name, op, params)
	s.metrics.operation(op, resultOf(err), time.Since(start))
	return result, err
}

func (s *Service) do(ctx context.Context, name string, op field.Op, params json.RawMessage) (any, error) {
	name, err := checkRequest(name, op, params)
	if err != nil {
		return nil, err
	}
	h, err := s.hold(name)
	if err != nil {
		return nil, err
	}
	defer s.release(h)
	if op.Changes() {
		return h.submit(ctx, op, params)
	}
	return h.read(ctx, op, params)
}

// Names returns the names of all Fields that have a change, in byte order.
func (s *Service) Names(ctx context.Context) ([]string, error) {
	names := []string{}
	after := ""
	for {
		page, err := s.store.FieldNames(ctx, after, namesLimit)
		if err != nil {
			return nil, store.Describe("read the names of fields", err)
		}
		if len(page) == 0 {
			return names, nil
		}
		names = append(names, page...)
		after = page[len(page)-1]
	}
}
