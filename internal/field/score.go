package field

import "strings"

// The most that each component gives. They are variables to the arithmetic,
// never folded with each other: 0.6+0.2+0.15 is 0.9500000000000001 in doubles,
// and so it is in answers (docs/field.md, "Components").
const (
	weightTopic   float64 = 0.6
	weightRole    float64 = 0.2
	weightRecency float64 = 0.15
	weightIntent  float64 = 0.05

	fullIntent = 50 // UTF-16 units from which an intent has its full weight
)

// table is how a mode scores.
type table struct {
	filter  bool // a topic hides entries of others
	degrees bool // roles count by what they share, intents by their trimmed length; else wholly or not at all
	summary func(Components) string
}

func (m Mode) table() table {
	if m == Reference {
		return table{filter: true, summary: referenceSummary}
	}
	return table{degrees: true, summary: gradedSummary}
}

// role is a role that someone has had in the Field.
type role struct {
	name   string
	tokens []string
}

func newRole(name string) role { return role{name, tokens(name)} }

func (s *State) internRole(name string) int32 {
	n, ok := s.roleNo[name]
	if !ok {
		n = int32(len(s.roles)) //nolint:gosec // there are not so many
		s.roles = append(s.roles, newRole(name))
		s.roleNo[name] = n
	}
	return n
}

// role compares the roles of reader and writer; both are known.
func (t *table) role(a, b *role) float64 {
	switch {
	case a.name == b.name && a.name != "":
		return weightRole
	case !t.degrees:
		return 0
	}
	common := 0
	for _, x := range a.tokens {
		for _, y := range b.tokens {
			if x == y {
				common++
			}
		}
	}
	if common == 0 {
		return 0
	}
	share := float64(common) / float64(len(a.tokens)+len(b.tokens)-common)
	return float64(weightRole * share)
}

// intent takes units of an intent, at most fullIntent, as it came and trimmed.
func (t *table) intent(raw, trimmed uint8) float64 {
	switch {
	case t.degrees:
		return float64(weightIntent * (float64(trimmed) / fullIntent))
	case raw >= fullIntent:
		return weightIntent
	default:
		return 0
	}
}

// recency falls in a line from the newest visible epoch to the oldest; spread
// is their distance, at least 1. The conversion keeps machines that multiply
// and add in one step from doing so.
func recency(newest, epoch int64, spread float64) float64 {
	part := 1 - float64(newest-epoch)/spread
	return float64(weightRecency * part)
}

// score adds up, in the order that decides the last digit.
func (c Components) score() float64 {
	return min(((c.Topic+c.Role)+c.Recency)+c.Intent, 1)
}

func gradedSummary(c Components) string {
	var said []string
	say := func(phrase string, when bool) {
		if when {
			said = append(said, phrase)
		}
	}
	say("topic match", c.Topic > 0)
	say("same role as writer", c.Role >= 0.15)
	say("similar role to writer", c.Role > 0 && c.Role < 0.15)
	say("written recently", c.Recency >= weightRecency/2)
	say("specific intent", c.Intent >= 0.02)
	if len(said) == 0 {
		return "no relevance signals"
	}
	return strings.Join(said, "; ")
}

func referenceSummary(c Components) string {
	var said []string
	say := func(phrase string, component float64) {
		if component > 0 {
			said = append(said, phrase+" ("+fixed2(component)+")")
		}
	}
	say("topic match", c.Topic)
	say("role match", c.Role)
	say("recent", c.Recency)
	say("intent substantive", c.Intent)
	if len(said) == 0 {
		return "no relevance signals matched"
	}
	return strings.Join(said, "; ")
}
