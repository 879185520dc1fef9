package sim

import (
	"slices"
	"strings"
	"time"
)

// Bounds of looking for less.
const (
	shrinkTime = 20 * time.Second // of the real clock
	shrinkRuns = 400
)

// Shrink leaves ops and faults out of a plan for as long as the same check
// still fails, and returns the least that it found with its result.
func Shrink(p *Plan, r *Result, run func(*Plan) *Result) (*Plan, *Result) {
	s := &shrinker{plan: p, result: r, check: checkOf(r), run: run, end: time.Now().Add(shrinkTime)}
	named := *p
	named.Only = make(map[string]bool)
	for _, f := range r.Faults {
		named.Only[f] = true
	}
	s.try(&named)
	for before := -1; before != s.size(); {
		before = s.size()
		s.ops()
		s.faults()
	}
	return s.plan, s.result
}

type shrinker struct {
	plan   *Plan
	result *Result
	check  string
	run    func(*Plan) *Result
	runs   int
	end    time.Time
}

func checkOf(r *Result) string {
	check, _, _ := strings.Cut(r.Findings[0], ":")
	return check
}

func (s *shrinker) size() int { return len(s.plan.Ops) + len(s.plan.Only) }

// try keeps a smaller plan when it fails in the same way.
func (s *shrinker) try(p *Plan) bool {
	if s.runs >= shrinkRuns || time.Now().After(s.end) {
		return false
	}
	s.runs++
	r := s.run(p)
	if len(r.Findings) == 0 || checkOf(r) != s.check {
		return false
	}
	s.plan, s.result = p, r
	return true
}

// ops leaves out runs of ops, long ones first.
func (s *shrinker) ops() {
	for n := len(s.plan.Ops) / 2; n > 0; n /= 2 {
		for at := 0; at+n <= len(s.plan.Ops); {
			less := *s.plan
			less.Ops = slices.Delete(slices.Clone(s.plan.Ops), at, at+n)
			if !s.try(&less) {
				at += n
			}
		}
	}
}

// faults leaves out runs of faults.
func (s *shrinker) faults() {
	for n := len(s.plan.Only); n > 0; n /= 2 {
		for at := 0; at < len(s.plan.Only); {
			names := sortedNames(s.plan.Only)
			less := *s.plan
			less.Only = make(map[string]bool)
			for i, name := range names {
				if i < at || i >= at+n {
					less.Only[name] = true
				}
			}
			if !s.try(&less) {
				at += n
			}
		}
	}
}

func sortedNames(set map[string]bool) []string {
	names := make([]string, 0, len(set))
	for name := range set {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
