package expr

import (
	"strings"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"attend/internal/engine"
	"attend/internal/judge"
)

// Vars are the variables of one evaluation, or of several in turn: what was
// worked out for one expression is there for the next. They are not safe for
// concurrent use.
type Vars struct {
	resolve func(name string) ref.Val
	known   map[string]ref.Val
	spent   uint64 // by the expressions evaluated so far, see TotalLimit
}

// ResolveName is asked by CEL for a variable.
func (v *Vars) ResolveName(name string) (any, bool) {
	if val, ok := v.known[name]; ok {
		return val, true
	}
	val := v.resolve(name)
	if val == nil {
		return nil, false
	}
	v.known[name] = val
	return val, true
}

// Parent is asked by CEL for the variables around these: there are none.
func (v *Vars) Parent() cel.Activation { return nil }

func newVars(resolve func(name string) ref.Val) *Vars {
	return &Vars{resolve: resolve, known: make(map[string]ref.Val)}
}

// window is what both forms of a window have in common.
type window struct {
	scope   string
	reason  engine.Reason
	trigger engine.Trigger
	waits   int
	dropped int
	gap     bool
	now     engine.Time
	count   int
	head    func(i int) (kind engine.Kind, name string, seenAt engine.Time)
	body    func(i int) (id, text string, data []byte)
	recent  []engine.Recent
	facts   []byte
	offered []engine.Route
	json    decoder
}

// OfWindow returns the variables of a window as the fold knows it. id, text and
// data are there where the window has its events' bodies; there are no facts.
func OfWindow(w *engine.Window) *Vars { return newVars(foldWindow(w).resolve) }

// OfInput returns the variables of what a judge is asked, facts included.
func OfInput(in *judge.Input) *Vars {
	events := in.Window.Events
	w := window{
		scope: in.Scope, reason: in.Window.Reason, trigger: in.Window.Trigger, waits: in.Window.Waits,
		dropped: in.Window.Dropped, gap: in.Window.Gap, now: in.Now, count: len(events),
		head: func(i int) (engine.Kind, string, engine.Time) {
			return events[i].Kind, events[i].Name, events[i].SeenAt
		},
		body:   func(i int) (string, string, []byte) { return events[i].ID, events[i].Text, events[i].Data },
		recent: in.Recent, facts: in.Facts,
	}
	for _, o := range in.Routes {
		w.offered = append(w.offered, o.Route)
	}
	return newVars(w.resolve)
}

// OfVerdict returns the variables of a window and of the verdict on it, before
// anything has changed its route.
func OfVerdict(w *engine.Window, v *engine.Verdict) *Vars {
	of := foldWindow(w)
	return newVars(func(name string) ref.Val {
		switch name {
		case "route":
			return types.String(v.Route.String())
		case "probabilities":
			shares := make(map[string]any)
			for _, r := range engine.Routes() {
				share := 0.0
				if v.Probabilities != nil {
					share = v.Probabilities.Of(r)
				}
				shares[r.String()] = types.Double(share)
			}
			return orderedMap(shares)
		case "predicates":
			answers := make(map[string]any, len(v.Predicates))
			for predicate, share := range v.Predicates { //arch:sorted by orderedMap
				answers[predicate] = types.Double(share)
			}
			return orderedMap(answers)
		case "confidence":
			if v.Confidence == nil {
				return types.NullValue
			}
			return types.Double(*v.Confidence)
		default:
			return of.resolve(name)
		}
	})
}

// OfHook returns the variables of a request: its body as JSON, its headers by
// lower-cased name, and its query. Of a header that came more than once the
// values are joined by ", "; of a query parameter the first counts.
func OfHook(body []byte, headers, query map[string][]string) *Vars {
	var read decoder
	return newVars(func(name string) ref.Val {
		switch name {
		case "body":
			return read.value(body)
		case "headers":
			joined := make(map[string]any, len(headers))
			for header, values := range headers { //arch:sorted by orderedMap
				joined[strings.ToLower(header)] = types.String(strings.Join(values, ", "))
			}
			return orderedMap(joined)
		case "query":
			first := make(map[string]any, len(query))
			for parameter, values := range query { //arch:sorted by orderedMap
				if len(values) > 0 {
					first[parameter] = types.String(values[0])
				}
			}
			return orderedMap(first)
		default:
			return nil
		}
	})
}

func foldWindow(w *engine.Window) *window {
	return &window{
		scope: w.Scope, reason: w.Reason, trigger: w.Trigger, waits: w.Waits,
		dropped: w.Dropped, gap: w.Gap, now: w.Now, count: len(w.Events),
		head: func(i int) (engine.Kind, string, engine.Time) {
			m := &w.Events[i]
			return m.Kind, m.Name, m.SeenAt
		},
		body: func(i int) (string, string, []byte) {
			if e := w.Body(i); e != nil {
				return e.ID, e.Text, e.Data
			}
			return "", "", nil
		},
		recent: w.Recent, offered: w.Offered,
	}
}

func (w *window) resolve(name string) ref.Val {
	switch name {
	case "scope":
		return types.String(w.scope)
	case "reason":
		return types.String(w.reason)
	case "trigger":
		return types.String(w.trigger)
	case "waits":
		return types.Int(w.waits)
	case "dropped":
		return types.Int(w.dropped)
	case "gap":
		return types.Bool(w.gap)
	case "now":
		return timestamp(w.now)
	case "events":
		return listOf(w.count, w.event)
	case "names":
		return listOf(w.count, func(i int) ref.Val { _, name, _ := w.head(i); return types.String(name) })
	case "kinds":
		return listOf(w.count, func(i int) ref.Val { kind, _, _ := w.head(i); return types.String(kind.String()) })
	case "counts":
		return w.counts()
	case "recent":
		return listOf(len(w.recent), func(i int) ref.Val { return recentOf(i, &w.recent[i]) })
	case "offered":
		return listOf(len(w.offered), func(i int) ref.Val { return types.String(w.offered[i].String()) })
	case "facts":
		return w.json.value(w.facts)
	default:
		return nil
	}
}

// counts holds a number for every kind, 0 too.
func (w *window) counts() ref.Val {
	n := make(map[engine.Kind]int)
	for i := range w.count {
		kind, _, _ := w.head(i)
		n[kind]++
	}
	counts := make(map[string]any)
	for _, k := range engine.Kinds() {
		counts[k.String()] = types.Int(n[k])
	}
	return orderedMap(counts)
}

func (w *window) event(i int) ref.Val {
	kind, name, seenAt := w.head(i)
	id, text, raw := w.body(i)
	var data ref.Val
	return &object{
		typ: eventType(), index: i,
		field: func(field string) ref.Val {
			switch field {
			case "id":
				return types.String(id)
			case "name":
				return types.String(name)
			case "kind":
				return types.String(kind.String())
			case "text":
				return types.String(text)
			case "seenAt":
				return timestamp(seenAt)
			case "data":
				if data == nil {
					data = w.json.value(raw)
				}
				return data
			default:
				return nil
			}
		},
		has: func(field string) bool {
			switch field {
			case "text":
				return text != ""
			case "data":
				return len(raw) > 0
			default:
				return true
			}
		},
	}
}

func recentOf(i int, r *engine.Recent) ref.Val {
	return &object{
		typ: recentType(), index: i,
		field: func(field string) ref.Val {
			switch field {
			case "window":
				return types.String(r.Window)
			case "at":
				return timestamp(r.At)
			case "route":
				return types.String(r.Route.String())
			case "judgedRoute":
				return types.String(r.JudgedRoute.String())
			default:
				return nil
			}
		},
		has: func(field string) bool { return field != "judgedRoute" || r.JudgedRoute != 0 },
	}
}

func timestamp(at engine.Time) ref.Val { return types.Timestamp{Time: time.UnixMilli(int64(at)).UTC()} }

func listOf(n int, at func(i int) ref.Val) ref.Val {
	elements := make([]ref.Val, n)
	for i := range elements {
		elements[i] = at(i)
	}
	return types.NewRefValList(types.DefaultTypeAdapter, elements)
}
