package field

import "encoding/json"

// Gathered is what the answer to an attune or a reckon is made of, taken out of
// a State: what takes long is done with it, and the State may change meanwhile.
// One goroutine at a time may use it.
type Gathered struct {
	query    *Query
	table    table
	entries  []Scored // without payload and summary, unless shown
	payloads []string
	topics   []int32
	bytes    int // of the payloads
	more     bool
	epoch    int64

	names []string // that contradictions are about
	pairs []pair   // in the order of the answer
	full  bool     // not every pair was compared: there are MaxConflicts

	kept         int // entries that Fit has left in
	cut          int // and those that it has left out
	cutConflicts int
}

// Gather looks up what answers a question: an attune or a reckon.
func (s *State) Gather(q *Query, set Settings) *Gathered {
	v := s.view(q, set)
	ranked, more := v.cut(q)
	g := &Gathered{
		query: q, table: v.table, more: more, epoch: s.epoch, kept: len(ranked),
		entries: make([]Scored, len(ranked)), payloads: make([]string, len(ranked)), topics: make([]int32, len(ranked)),
	}
	for i, r := range ranked {
		c := v.components(r)
		g.entries[i] = Scored{Entry: s.bare(r), Score: c.score(), Reason: Reason{Components: c}}
		g.payloads[i], g.topics[i] = r.payload(), r.topic
		g.bytes += len(g.payloads[i])
	}
	return g
}

// Small reports whether the answer is soon made. Many others at once would keep
// everybody waiting.
func (g *Gathered) Small() bool {
	return g.query.Op != OpReckon || len(g.entries) <= DefaultUnits && g.bytes <= smallBytes
}

const smallBytes = 256 << 10

// Entries are the entries of the answer, whatever Fit leaves out. They have no
// payload.
func (g *Gathered) Entries() []Scored { return g.entries }

// Conflicts are what Compare has found and Fit has left in. The entries have no
// payload.
func (g *Gathered) Conflicts() []Conflict {
	out := make([]Conflict, len(g.pairs))
	for i := range g.pairs {
		p := &g.pairs[i]
		out[i] = Conflict{A: &g.entries[p.a], B: &g.entries[p.b], Keys: g.named(p.keys)}
		if len(p.paths) > 0 {
			out[i].Paths = g.named(p.paths)
		}
	}
	return out
}

func (g *Gathered) named(numbers []int32) []string {
	out := make([]string, len(numbers))
	for i, n := range numbers {
		out[i] = g.names[n]
	}
	return out
}

// Fit leaves out, from the end of each list, what has no room in an answer of
// that many bytes of JSON. Conflicts, each of which holds two entries whole, may
// take the half of it, what the entries leave, or what the first of them needs.
// Where conflicts alone are to be told, all of it is theirs.
func (g *Gathered) Fit(most int) {
	if g.query.ConflictsOnly {
		g.kept = 0
	}
	sizes, all := make([]int, len(g.entries)), 0
	for i := range g.entries {
		sizes[i] = len(g.payloads[i]) + g.entries[i].size()
		if i < g.kept {
			all += sizes[i]
		}
	}
	room := most - aroundAnswer
	kept, used := 0, 0
	for i := range g.pairs {
		p := &g.pairs[i]
		n := used + sizes[p.a] + sizes[p.b] + aroundConflict
		for _, numbers := range [2][]int32{p.keys, p.paths} {
			for _, k := range numbers {
				n += escapedLen(g.names[k]) + len(`"",`)
			}
		}
		if n > room || n > max(room/2, room-all) && i > 0 {
			break
		}
		kept, used = i+1, n
	}
	g.cutConflicts += len(g.pairs) - kept
	clear(g.pairs[kept:])
	g.pairs = g.pairs[:kept]
	for i := range g.kept {
		if used += sizes[i]; used > room {
			g.cut += g.kept - i
			g.kept = i
			break
		}
	}
}

// Result is the answer: an Attuned or a Reckoned. What is left in has its
// payload now.
func (g *Gathered) Result() any {
	for i := range g.kept {
		g.show(int32(i)) //nolint:gosec // at most MaxAttuned
	}
	for i := range g.pairs {
		g.show(g.pairs[i].a)
		g.show(g.pairs[i].b)
	}
	if g.query.Op != OpReckon {
		return Attuned{Entries: g.entries[:g.kept], More: g.more, Epoch: g.epoch, Cut: g.cut}
	}
	return Reckoned{
		Entries: g.entries[:g.kept], Conflicts: g.Conflicts(), MoreConflicts: g.full, More: g.more, Epoch: g.epoch,
		Cut: g.cut + g.cutConflicts, CutConflicts: g.cutConflicts,
	}
}

func (g *Gathered) show(i int32) {
	e := &g.entries[i]
	if e.Entry.Entry == nil {
		e.Entry.Entry = json.RawMessage(g.payloads[i])
		e.Reason.Summary = g.table.summary(e.Reason.Components)
	}
}

// Bytes of an answer's JSON beside the texts in it, at most.
const (
	aroundAnswer   = 1 << 10
	aroundEntry    = 512
	aroundConflict = 64
)

// size is what an entry has in JSON at most, without its payload.
func (e *Entry) size() int {
	return aroundEntry + len(e.Supersedes) + len(e.SupersededBy) +
		escapedLen(e.ID) + escapedLen(e.Agent) + escapedLen(e.Intent) + escapedLen(e.RetractIntent)
}

// escapedLen is what a text has in JSON at most, without its quotes.
func escapedLen(s string) int {
	n := len(s)
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ', c == 0x7F, c == 0xE2: // \u0000; U+2028 begins with 0xE2
			n += 5
		case c == '"', c == '\\':
			n++
		}
	}
	return n
}
