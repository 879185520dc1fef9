package engine_test

import (
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"attend/internal/engine"
	"attend/internal/replay"
)

// compile knows judges by name, and overrides that look for a word in the texts
// of a window.
func compile(pure map[string]engine.PureJudge) engine.Compile {
	return func(p *engine.Policy) (engine.Compiled, error) {
		c := engine.Compiled{Judge: pure[p.Judge]}
		c.Bodies = len(p.Overrides) > 0 || c.Judge != nil && (p.Judge == "reads" || p.Judge == "script")
		if len(p.Overrides) > 0 {
			c.Override = func(w *engine.Window, _ *engine.Verdict) (engine.Route, bool) {
				for _, o := range p.Overrides {
					if slices.Contains(texts(w), o.When) {
						return o.Then, true
					}
				}
				return 0, false
			}
		}
		return c, nil
	}
}

// texts are those of a window's events, "(lost)" for one whose body is not
// known.
func texts(w *engine.Window) []string {
	out := make([]string, len(w.Events))
	for i := range w.Events {
		if body := w.Body(i); body != nil {
			out[i] = body.Text
		} else {
			out[i] = "(lost)"
		}
	}
	return out
}

// pureJudges are the judges that the histories know.
func pureJudges() map[string]engine.PureJudge {
	return map[string]engine.PureJudge{
		"rule":  engine.RuleJudge,
		"notes": func(*engine.Window) engine.Answer { return engine.Answer{Route: engine.Note} },
		"skips": func(*engine.Window) engine.Answer { return engine.Answer{Route: engine.Skip} },
		"fails": func(*engine.Window) engine.Answer { return engine.Answer{Route: 99} },
		"waits": func(w *engine.Window) engine.Answer {
			if w.Offered[len(w.Offered)-1] == engine.Wait {
				return engine.Answer{Route: engine.Wait}
			}
			return engine.Answer{Route: engine.Queue}
		},
		"reads": readingJudge,
	}
}

// readingJudge takes the first route that a text names. Else its answer follows
// from everything that it may look at.
func readingJudge(w *engine.Window) engine.Answer {
	said := texts(w)
	h := fnv.New32a()
	for i, text := range said {
		if r, err := engine.ParseRoute(text); err == nil && slices.Contains(w.Offered, r) {
			return engine.Answer{Route: r}
		}
		if body := w.Body(i); body != nil {
			h.Write([]byte(body.ID + " " + text + "\n"))
		}
	}
	for _, r := range w.Recent {
		h.Write([]byte(r.Window + r.Route.String()))
	}
	h.Write([]byte(strings.Repeat(".", int(w.Now%7))))
	return engine.Answer{Route: w.Offered[int(h.Sum32())%len(w.Offered)]}
}

// answer reads what a scripted judge says.
func (s *teller) answer(n int, words []string) replay.Answer {
	s.t.Helper()
	a := replay.Answer{}
	number := func(text string) float64 {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			s.fail(n, "%v", err)
		}
		return x
	}
	switch words[0] {
	case "never":
		a.Route, a.AfterMs = engine.Skip, 1<<40
	case "error":
		a.Error = words[1]
		words = words[1:]
	default:
		// What is no route is an answer that was not offered.
		if err := a.Route.UnmarshalText([]byte(words[0])); err != nil {
			a.Route = 99
		}
	}
	for i := 1; i < len(words); i++ {
		key, value, pair := strings.Cut(words[i], "=")
		route, isRoute := engine.ParseRoute(key)
		switch {
		case words[i] == "after":
			i++
			a.AfterMs = int64(number(words[i]))
		case words[i] == "retry-after":
			i++
			a.RetryAfterMs = int64(number(words[i]))
		case words[i] == "permanent":
			a.Permanent = true
		case words[i] == "held":
			a.Why = engine.WhyHeld
		case key == "confidence":
			c := number(value)
			a.Confidence = &c
		case strings.HasPrefix(key, "ask."):
			if a.Predicates == nil {
				a.Predicates = make(map[string]float64)
			}
			a.Predicates[strings.TrimPrefix(key, "ask.")] = number(value)
		case pair && isRoute == nil:
			if a.Probabilities == nil {
				a.Probabilities = make(map[engine.Route]float64)
			}
			a.Probabilities[route] = number(value)
		default:
			s.fail(n, "judge: %q is unknown", words[i])
		}
	}
	return a
}

func (s *teller) override(n int, word string) {
	s.t.Helper()
	when, then, _ := strings.Cut(word, "=")
	r, err := engine.ParseRoute(then)
	if err != nil {
		s.fail(n, "%v", err)
	}
	s.policy.Overrides = []engine.OverrideRule{{When: when, Then: r}}
}
