package config

import (
	"fmt"
	"math"
	"strings"

	"go.yaml.in/yaml/v3"

	"attend/internal/engine"
)

// Bounds on what a policy may hold.
const (
	maxPatternBytes = 1024
	maxTextBytes    = 16 << 10 // guidance, a criterion, a question
	maxRungs        = 100
	maxPredicates   = 199 // a hosted judge takes 200 questions, and the route is one

	// Longer times would overflow when they are added to a stamp.
	maxDurationMs = int64(10 * 366 * 24 * 3600 * 1000)
	// Sizes and counts are kept in 32 bits.
	maxCount = math.MaxInt32
)

// setting is one key of policy, or of an entry of scopes: a field of
// [engine.Settings] under its JSON name.
type setting struct {
	name string
	// top marks what stands at the top level of the file, and not in policy.
	top bool
	// read returns what the value changes, as far as it could be read, or nil.
	read func(r *reader, n *yaml.Node, key string) func(*engine.Settings)
}

// settings is the one table of them; a test holds it against the struct.
func settings() []setting {
	return []setting{
		duration("closingGraceMs", func(s *engine.Settings) *int64 { return &s.ClosingGraceMs }),
		duration("streamGapMs", func(s *engine.Settings) *int64 { return &s.StreamGapMs }),
		duration("passiveQuietMs", func(s *engine.Settings) *int64 { return &s.PassiveQuietMs }),
		duration("maxWindowMs", func(s *engine.Settings) *int64 { return &s.MaxWindowMs }),
		count("maxEvents", func(s *engine.Settings) *int { return &s.MaxEvents }),
		duration("waitHorizonMs", func(s *engine.Settings) *int64 { return &s.WaitHorizonMs }),
		count("maxWaits", func(s *engine.Settings) *int { return &s.MaxWaits }),
		duration("judgeTimeoutMs", func(s *engine.Settings) *int64 { return &s.JudgeTimeoutMs }),
		duration("captureTimeoutMs", func(s *engine.Settings) *int64 { return &s.CaptureTimeoutMs }),
		duration("contextTimeoutMs", func(s *engine.Settings) *int64 { return &s.ContextTimeoutMs }),
		{name: "retryBackoffMs", read: readRungs},
		{name: "retryJitter", read: func(r *reader, n *yaml.Node, key string) func(*engine.Settings) {
			v, ok := r.number(n, key)
			return when(ok, func(s *engine.Settings) { s.RetryJitter = v })
		}},
		duration("deliveryTimeoutMs", func(s *engine.Settings) *int64 { return &s.DeliveryTimeoutMs }),
		count("recentCount", func(s *engine.Settings) *int { return &s.RecentCount }),
		count("maxOutbox", func(s *engine.Settings) *int { return &s.MaxOutbox }),
		count("maxDeadLetters", func(s *engine.Settings) *int { return &s.MaxDeadLetters }),
		duration("dedupMs", func(s *engine.Settings) *int64 { return &s.DedupMs }),
		count("dedupIds", func(s *engine.Settings) *int { return &s.DedupIDs }),
		size("maxEventBytes", func(s *engine.Settings) *int64 { return &s.MaxEventBytes }),
		size("maxWindowBytes", func(s *engine.Settings) *int64 { return &s.MaxWindowBytes }),
		{name: "actThreshold", top: true, read: func(r *reader, n *yaml.Node, key string) func(*engine.Settings) {
			v, err := parseThreshold(n.Value)
			if err != nil || n.Kind != yaml.ScalarNode {
				r.fail(n, key, "is %s: must be in (0, 1], or off", describe(n))
				return nil
			}
			return func(s *engine.Settings) { s.ActThreshold = v }
		}},
		{name: "guidance", top: true, read: func(r *reader, n *yaml.Node, key string) func(*engine.Settings) {
			v, ok := r.text(n, key, maxTextBytes)
			return when(ok, func(s *engine.Settings) { s.Guidance = v })
		}},
		{name: "floor", top: true, read: readFloor},
		{name: "criteria", top: true, read: readCriteria},
		{name: "predicates", top: true, read: readPredicates},
	}
}

func when(ok bool, change func(*engine.Settings)) func(*engine.Settings) {
	if !ok {
		return nil
	}
	return change
}

func duration(name string, field func(*engine.Settings) *int64) setting {
	return bounded(name, maxDurationMs, field)
}

func size(name string, field func(*engine.Settings) *int64) setting {
	return bounded(name, maxCount, field)
}

func bounded(name string, most int64, field func(*engine.Settings) *int64) setting {
	return setting{name: name, read: func(r *reader, n *yaml.Node, key string) func(*engine.Settings) {
		v, ok := r.integer(n, key, most)
		return when(ok, func(s *engine.Settings) { *field(s) = v })
	}}
}

func count(name string, field func(*engine.Settings) *int) setting {
	return setting{name: name, read: func(r *reader, n *yaml.Node, key string) func(*engine.Settings) {
		v, ok := r.integer(n, key, maxCount)
		return when(ok, func(s *engine.Settings) { *field(s) = int(v) })
	}}
}

// apply reads one setting into s. What is in range is the engine's to say: the
// value is tried on the defaults, so that the answer is about it alone.
func (r *reader) apply(set setting, n *yaml.Node, key string, s *engine.Settings) {
	if isNull(n) {
		return // "closingGraceMs:" with nothing behind it: not set
	}
	change := set.read(r, n, key)
	if change == nil {
		return
	}
	probe := engine.Defaults()
	change(&probe)
	if err := probe.Check(); err != nil {
		r.fail(n, key, "%s", strings.TrimPrefix(err.Error(), set.name+" "))
		return
	}
	change(s)
}

func readRungs(r *reader, n *yaml.Node, key string) func(*engine.Settings) {
	items := r.items(n, key, "a list of milliseconds, as [1000, 5000]")
	if n.Kind != yaml.SequenceNode {
		return nil
	}
	if len(items) > maxRungs {
		r.fail(n, key, "has %d rungs: may have at most %d", len(items), maxRungs)
		return nil
	}
	rungs := make([]int64, len(items))
	for i, item := range items {
		rungs[i], _ = r.integer(item, fmt.Sprintf("%s[%d]", key, i), maxDurationMs)
	}
	return func(s *engine.Settings) { s.RetryBackoffMs = rungs }
}

func readFloor(r *reader, n *yaml.Node, key string) func(*engine.Settings) {
	floor := make(engine.Floor)
	for _, f := range r.fields(n, key, "an object of kinds and routes, as {flush: queue}") {
		at := join(key, label(f.name))
		kind, err := engine.ParseKind(f.name)
		if err != nil {
			r.fail(f.key, at, "unknown kind%s", orList(f.name, kindNames()))
			continue
		}
		route, ok := r.route(f.value, at)
		switch {
		case ok && route == engine.Wait:
			r.fail(f.value, at, "is wait: must be skip, note, queue, ask or interrupt")
		case ok:
			floor[kind] = route
		}
	}
	return func(s *engine.Settings) { s.Floor = floor }
}

// route reads a route's name.
func (r *reader) route(n *yaml.Node, key string) (engine.Route, bool) {
	route, err := engine.ParseRoute(n.Value)
	if err != nil || n.Kind != yaml.ScalarNode {
		r.fail(n, key, "is %s: unknown route%s", describe(n), orList(n.Value, routeNames()))
		return 0, false
	}
	return route, true
}

func readCriteria(r *reader, n *yaml.Node, key string) func(*engine.Settings) {
	criteria := make(map[engine.Route]string)
	for _, f := range r.fields(n, key, "an object of routes and sentences") {
		at := join(key, label(f.name))
		route, err := engine.ParseRoute(f.name)
		if err != nil {
			r.fail(f.key, at, "unknown route%s", orList(f.name, routeNames()))
			continue
		}
		if text, ok := r.text(f.value, at, maxTextBytes); ok {
			criteria[route] = text
		}
	}
	return func(s *engine.Settings) { s.Criteria = criteria }
}

func readPredicates(r *reader, n *yaml.Node, key string) func(*engine.Settings) {
	fields := r.fields(n, key, "an object of names and yes-or-no questions")
	if len(fields) > maxPredicates {
		r.fail(n, key, "has %d questions: may have at most %d", len(fields), maxPredicates)
	}
	predicates := make([]engine.Predicate, 0, len(fields))
	for _, f := range fields {
		at := join(key, label(f.name))
		if _, ok := r.name(f.key, at, 128); !ok {
			continue
		}
		if text, ok := r.text(f.value, at, maxTextBytes); ok {
			predicates = append(predicates, engine.Predicate{Name: f.name, Question: text})
		}
	}
	return func(s *engine.Settings) { s.Predicates = predicates }
}
