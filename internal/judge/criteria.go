package judge

import "attend/internal/engine"

// Criteria are the routes on offer, each with what it is for: as the policy
// says, else as the judge's own options do, else by default (seed, "llmJudge").
func Criteria(in *Input, own map[engine.Route]string) []Offer {
	out := make([]Offer, len(in.Routes))
	for i, o := range in.Routes {
		if o.Criterion == "" {
			o.Criterion = own[o.Route]
		}
		if o.Criterion == "" {
			o.Criterion = defaultCriterion(o.Route)
		}
		out[i] = o
	}
	return out
}

// defaultCriterion says when a route is right, where nobody else did.
func defaultCriterion(r engine.Route) string {
	switch r {
	case engine.Interrupt:
		return "The agent must know this now, in the middle of what it does: somebody waits for it, harm grows while it does not know, or its present work is made useless by it."
	case engine.Queue:
		return "The agent should act on this, and it can as soon as it is done with what it does now."
	case engine.Note:
		return "The agent should know this when it next works, and there is nothing in it to act on by itself."
	case engine.Ask:
		return "Whether the agent should step in is for its user to say: it could help, but nobody called for it, or it would be presumptuous or costly to begin unasked."
	case engine.Skip:
		return "Nothing in it is of use to the agent: noise, routine that went well, a repetition of what it knows, or what it did itself."
	case engine.Wait:
		return "What is going on is visibly unfinished, and what comes within the next minute is likely to change the choice."
	default:
		return ""
	}
}
