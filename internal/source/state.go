package source

import (
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"attend/internal/engine"
)

// State says what a source is doing.
type State string

// The states.
const (
	Elsewhere  State = "elsewhere"  // another daemon runs it, or none yet
	Connecting State = "connecting" // to its server, or about to open its stream
	Streaming  State = "streaming"
	Polling    State = "polling"
	BackingOff State = "backingOff" // it is tried again, through retryBackoffMs
	Ended      State = "ended"      // the server refused it: people must look
	Stuck      State = "stuck"      // what the server sends next breaks each connection: people must look. It is tried again
)

// number is the state as attend_source_state has it.
func (s State) number() float64 {
	for i, state := range []State{Elsewhere, Connecting, Streaming, Polling, BackingOff, Ended, Stuck} {
		if s == state {
			return float64(i)
		}
	}
	return -1
}

// Status is how a source stands, as GET /v1/sources shows it. What is counted
// is counted since the daemon's start.
type Status struct {
	Name        string      `json:"name"`
	Server      string      `json:"server"`
	Event       string      `json:"event"`
	Scope       string      `json:"scope,omitempty"` // "" where it is made of each event's data
	Mode        Mode        `json:"mode"`            // in use; auto while that is not known
	State       State       `json:"state"`
	Since       engine.Time `json:"since"` // of the state
	LastEventAt engine.Time `json:"lastEventAt,omitempty"`
	Cursor      bool        `json:"cursor"` // a position is known, from which it goes on
	RetryAt     engine.Time `json:"retryAt,omitempty"`
	LastError   *Trouble    `json:"lastError,omitempty"`
	Counts      Counts      `json:"counts"`
}

// Trouble is the last thing that went wrong.
type Trouble struct {
	Kind    string      `json:"kind"`
	Message string      `json:"message"`
	At      engine.Time `json:"at"`
}

// Counts are what came of a source.
type Counts struct {
	Accepted   int64 `json:"accepted"`
	Duplicates int64 `json:"duplicates"` // the server sent them again
	Filtered   int64 `json:"filtered"`   // left out by only
	Malformed  int64 `json:"malformed"`  // skipped
	Gaps       int64 `json:"gaps"`       // times that the server had lost events
	Retries    int64 `json:"retries"`
}

// board is what is shown of a source.
type board struct {
	mu     sync.Mutex
	status Status
	mode   Mode // as configured
}

func (b *board) init(now engine.Time, mode Mode) {
	b.mode = mode
	b.status.State, b.status.Since, b.status.Mode = Elsewhere, now, mode
}

// change changes what is shown.
func (b *board) change(f func(s *Status)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(&b.status)
}

// enter notes a state.
func (b *board) enter(state State, now engine.Time) {
	b.change(func(s *Status) {
		if s.State != state {
			s.State, s.Since = state, now
		}
		s.RetryAt = 0
	})
}

// elsewhere notes that the source is not this daemon's any longer.
func (b *board) elsewhere(now engine.Time) {
	b.enter(Elsewhere, now)
	b.change(func(s *Status) { s.Mode, s.Cursor = b.mode, false })
}

// status returns a copy of what is shown.
func (f *feed) status() Status {
	f.board.mu.Lock()
	defer f.board.mu.Unlock()
	s := f.board.status
	s.Name, s.Server, s.Event, s.Scope = f.Name, f.Server, f.Event, f.Source.Scope
	if s.LastError != nil {
		trouble := *s.LastError
		s.LastError = &trouble
	}
	return s
}

// metrics counts trouble and shows states. Names of sources stand in the
// configuration: the set of labels is closed.
type metrics struct {
	errors *prometheus.CounterVec
	desc   *prometheus.Desc
	feeds  func() []*feed
}

func newMetrics(reg prometheus.Registerer, feeds func() []*feed) (*metrics, error) {
	m := &metrics{
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "attend_source_errors_total",
			Help: "Trouble with sources of events, by kind. A source goes on by itself after all of them but refused.",
		}, []string{"source", "kind"}),
		desc: prometheus.NewDesc("attend_source_state",
			"What a source of events is doing: 0 runs elsewhere, 1 connecting, 2 streaming, 3 polling, 4 backing off, 5 ended (the server refused it), 6 stuck (what it sends next breaks the connection).",
			[]string{"source"}, nil),
		feeds: feeds,
	}
	for _, c := range []prometheus.Collector{m.errors, m} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register the metrics of sources: %w", err)
		}
	}
	return m, nil
}

// expect shows that sources have had no trouble yet.
func (m *metrics) expect(feeds []*feed) {
	for _, f := range feeds {
		for _, kind := range kinds() {
			m.errors.WithLabelValues(f.Name, kind)
		}
	}
}

// forget drops what was counted of sources that there are no longer.
func (m *metrics) forget(feeds []*feed) {
	for _, f := range feeds {
		m.errors.DeletePartialMatch(prometheus.Labels{"source": f.Name})
	}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) { ch <- m.desc }

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	for _, f := range m.feeds() {
		ch <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, f.status().State.number(), f.Name)
	}
}
