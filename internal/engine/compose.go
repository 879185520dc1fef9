package engine

import "unicode/utf8"

// Bounds of the events that a decision or dead letter carries (design,
// section 6).
const (
	ViewEvents = 200
	ViewBytes  = 128 << 10
	ViewText   = 4 << 10
)

// ComposeDecision writes D for a verdict. Bodies are the window's events as
// they stand in the log; those that are missing are shown by kind and time
// alone.
func ComposeDecision(scope string, st *Settled, members Members, v *Verdict, bodies []Record) *Decision {
	views, lines := view(members, bodies)
	kept, cut := cutViews(views)
	d := &Decision{
		ID: st.Window, Kind: "decision", Scope: scope, Route: v.Route,
		Changed: v.Changed, Reason: st.Reason, Trigger: st.Trigger,
		Probabilities: probabilityMap(v), Predicates: v.Predicates, Confidence: v.Confidence,
		Waits: st.Waits, Dropped: st.Dropped, Gap: st.Gap,
		At: v.At, Due: st.Due, SettledAt: st.SettledAt,
		Notice: Notice(lines, false), Events: kept, Cut: cut, Judge: v.Judge,
	}
	if v.JudgedRoute != 0 {
		judged := v.JudgedRoute
		d.JudgedRoute = &judged
	}
	if d.Changed == nil {
		d.Changed = []Change{}
	}
	if d.Predicates == nil {
		d.Predicates = map[string]float64{}
	}
	return d
}

// NoticeWithData is D's notice for whoever may read the data of events: an event
// without text is shown by its name and its data (seed, "MCP Events sources").
// The recorded notice is for everyone, and has names alone. Bodies are the
// window's events; where some of them are no longer kept the recorded notice
// stays.
func NoticeWithData(d *Decision, st *Settled, bodies []Record) string {
	if st == nil || len(bodies) == 0 || len(bodies) < len(st.Events) {
		return d.Notice
	}
	lines := make([]Line, len(bodies))
	bare := false
	for i := range bodies {
		e := bodies[i].Event
		lines[i] = Line{Kind: e.Kind, Name: e.Name, Text: e.Text, Data: e.Data}
		bare = bare || e.Text == "" && len(e.Data) > 0
	}
	if !bare {
		return d.Notice
	}
	return Notice(lines, true)
}

// ComposeDeadLetter fills in the events of a dead letter.
func ComposeDeadLetter(d *DeadLetter, bodies []Record) {
	views, _ := view(d.Members, bodies)
	d.Events, d.Cut = cutViews(views)
}

func probabilityMap(v *Verdict) map[string]float64 {
	m := make(map[string]float64, routeCount)
	for _, r := range Routes() {
		m[r.String()] = 0
		if v.Probabilities != nil {
			m[r.String()] = v.Probabilities.Of(r)
		}
	}
	if v.Probabilities == nil {
		m[v.Route.String()] = 1
	}
	return m
}

func view(members Members, bodies []Record) ([]EventView, []Line) {
	views := make([]EventView, len(members))
	lines := make([]Line, len(members))
	byPosition := make(map[Position]*Event, len(bodies))
	for i := range bodies {
		byPosition[bodies[i].Position] = bodies[i].Event
	}
	for i := range members {
		m := &members[i]
		views[i] = EventView{Name: m.Name, Kind: m.Kind, SeenAt: m.SeenAt, Position: m.Position}
		lines[i] = Line{Kind: m.Kind, Name: m.Name}
		if e := byPosition[m.Position]; e != nil {
			views[i].ID, views[i].Name, views[i].Text = e.ID, e.Name, e.Text
			lines[i].Name, lines[i].Text, lines[i].Data = e.Name, e.Text, e.Data
		}
	}
	return views, lines
}

// cutViews keeps at most ViewEvents events of ViewBytes in all, as JSON, each
// text cut to ViewText, by the notice's rule.
func cutViews(views []EventView) (kept []EventView, cut int) {
	items := make([]cutItem, len(views))
	for i := range views {
		views[i].Text = Shorten(views[i].Text, ViewText)
		items[i] = cutItem{views[i].Kind, viewSize(&views[i], ViewText)}
	}
	c := newCutter(items)
	if c.over(ViewEvents, ViewBytes) {
		c.fit(ViewEvents, ViewBytes, shortLine, func(i, limit int) int { return viewSize(&views[i], limit) }, func(i, limit int) {
			views[i].Text = Shorten(views[i].Text, limit)
		})
	}
	kept = make([]EventView, 0, c.count)
	for i := range views {
		if c.keep[i] {
			kept = append(kept, views[i])
		}
	}
	return kept, len(views) - len(kept)
}

// viewSize is what an event takes as JSON, with its text cut to a limit.
func viewSize(v *EventView, limit int) int {
	const frame = 96 // of the braces, names, kind and time
	return frame + jsonSize(v.ID) + jsonSize(v.Name) + jsonSize(Shorten(v.Text, limit))
}

// jsonSize is the length of a string in JSON as encoding/json writes it,
// without the quotes.
func jsonSize(s string) int {
	n := 0
	for _, r := range s {
		switch {
		case r == '"', r == '\\', r == '\n', r == '\r', r == '\t', r == '\b', r == '\f':
			n += 2
		case r < ' ', r == '<', r == '>', r == '&', r == '\u2028', r == '\u2029', r == utf8.RuneError:
			n += len(`\u0000`)
		default:
			n += utf8.RuneLen(r)
		}
	}
	return n
}
