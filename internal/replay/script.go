package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"attend/internal/engine"
)

// Answer is what a scripted judge says to one call: a line of an answers file.
// A line with an error is a failed call.
type Answer struct {
	// Scope is the scope whose calls it answers; "" for those of any scope that
	// has no answers of its own left.
	Scope string `json:"scope,omitempty"`
	// AfterMs is how long the judge takes. Not before its timeout is never.
	AfterMs int64 `json:"afterMs,omitempty"`

	Route         engine.Route             `json:"route,omitempty"`
	Probabilities map[engine.Route]float64 `json:"probabilities,omitempty"`
	Predicates    map[string]float64       `json:"predicates,omitempty"`
	Confidence    *float64                 `json:"confidence,omitempty"`
	Model         string                   `json:"model,omitempty"`

	Error     string `json:"error,omitempty"`
	Why       string `json:"why,omitempty"` // the class of the failure; "error" when absent
	Permanent bool   `json:"permanent,omitempty"`
	// The judge asks for no call before an instant, or for a time.
	NotBefore    engine.Time `json:"notBefore,omitempty"`
	RetryAfterMs int64       `json:"retryAfterMs,omitempty"`

	recorded *engine.Failed // of a log: the failure as it stood there
	exact    bool           // of a log: it came when it came, whatever the timeout
	startAt  engine.Time    // of a log: when its call started
}

// Script holds answers in the order of the calls. The zero Script is empty.
type Script struct {
	scopes map[string][]Answer
	any    []Answer
}

// Add puts an answer behind the others of its scope.
func (s *Script) Add(a Answer) {
	if a.Scope == "" {
		s.any = append(s.any, a)
		return
	}
	if s.scopes == nil {
		s.scopes = make(map[string][]Answer)
	}
	s.scopes[a.Scope] = append(s.scopes[a.Scope], a)
}

// startAt is the instant before which the scope's next call does not start: in
// the log that is played the owner was away until then.
func (s *Script) startAt(scope string) engine.Time {
	if own := s.scopes[scope]; len(own) > 0 {
		return own[0].startAt
	}
	return 0
}

func (s *Script) next(scope string) (a Answer, ok bool) {
	if own := s.scopes[scope]; len(own) > 0 {
		s.scopes[scope] = own[1:]
		return own[0], true
	}
	if len(s.any) > 0 {
		a, s.any = s.any[0], s.any[1:]
		return a, true
	}
	return Answer{}, false
}

// ReadScript reads answers, one JSON object a line. The lines of an exported
// log serve too: its calls then end as they did. name is for errors.
func ReadScript(name string, r io.Reader) (*Script, error) {
	s := new(Script)
	recorded := recording{script: s, calls: make(map[string]engine.Time)}
	err := eachLine(name, r, func(_ int, b []byte) error {
		var l struct {
			Position engine.Position `json:"position"`
			Stamp    engine.Time     `json:"stamp"`
			Scope    string          `json:"scope"`
			Step     *engine.Step    `json:"step"`
		}
		if err := json.Unmarshal(b, &l); err != nil {
			return err
		}
		if l.Position > 0 {
			recorded.step(l.Scope, l.Stamp, l.Step)
			return nil
		}
		a, err := parseAnswer(b)
		if err != nil {
			return err
		}
		s.Add(a)
		return nil
	})
	return s, err
}

func parseAnswer(b []byte) (a Answer, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	switch err = d.Decode(&a); {
	case err != nil:
		return a, err
	case a.Error == "" && a.Route == 0:
		return a, errors.New("an answer needs a route, or an error")
	case a.AfterMs < 0 || a.RetryAfterMs < 0:
		return a, errors.New("afterMs and retryAfterMs must be at least 0")
	}
	return a, nil
}

// recording makes answers of the calls in an exported log.
type recording struct {
	script *Script
	calls  map[string]engine.Time // scope → stamp of its running call
}

func (r *recording) step(scope string, stamp engine.Time, st *engine.Step) {
	if st == nil {
		return
	}
	a := Answer{Scope: scope, AfterMs: int64(stamp - r.calls[scope]), exact: true, startAt: r.calls[scope]}
	switch {
	case st.Call != nil:
		r.calls[scope] = stamp
		return
	case st.Failed != nil:
		a.recorded = &engine.Failed{
			Why: st.Failed.Why, Message: st.Failed.Message, Permanent: st.Failed.Permanent,
			Uncounted: st.Failed.Uncounted, NotBefore: st.Failed.NotBefore, TookMs: st.Failed.TookMs,
		}
	case st.Verdict != nil && st.Verdict.Attempt > 0:
		v := st.Verdict
		a.Route, a.Predicates, a.Confidence = v.JudgedRoute, v.Predicates, v.Confidence
		if v.Judge != nil {
			a.Model = v.Judge.Model
		}
		if p := v.Probabilities; p != nil {
			a.Probabilities = make(map[engine.Route]float64)
			for _, route := range engine.Routes() {
				a.Probabilities[route] = p.Of(route)
			}
		}
	default:
		return
	}
	r.script.Add(a)
}

func (a *Answer) reply() engine.Answer {
	return engine.Answer{Route: a.Route, Probabilities: a.Probabilities, Predicates: a.Predicates, Confidence: a.Confidence}
}

func answerOf(a engine.Answer) Answer {
	return Answer{Route: a.Route, Probabilities: a.Probabilities, Predicates: a.Predicates, Confidence: a.Confidence}
}

// failure is what the answer fails with, nil when it is one.
func (a *Answer) failure() *engine.Failed {
	if a.recorded != nil || a.Error == "" {
		return a.recorded
	}
	f := engine.Failed{Why: a.Why, Message: a.Error, Permanent: a.Permanent, NotBefore: a.NotBefore, TookMs: a.AfterMs}
	if f.Why == "" {
		f.Why = "error"
	}
	if a.RetryAfterMs > 0 {
		f.RetryAfterMs = a.RetryAfterMs
	}
	return &f
}
