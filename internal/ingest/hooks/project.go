package hooks

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// detail is how much of a value a projection keeps.
type detail struct{ text, items, depth int }

// project returns as much of a JSON value as goes into so many bytes, with a note:
// long texts, lists and objects are cut, each as far as all others.
func project(data []byte, whole note, most int) []byte {
	details := []detail{{4096, 100, 12}, {1024, 30, 8}, {256, 10, 6}, {64, 4, 4}}
	value := (&pruner{b: data}).value(details[0])
	for _, keep := range details {
		object, is := keep.of(value).(map[string]any)
		if !is {
			object = map[string]any{"value": keep.of(value)}
		}
		object[noteName] = whole
		if b := encode(object); len(b) <= most {
			return b
		}
	}
	return encode(map[string]any{noteName: whole})
}

// of cuts a value down.
func (k detail) of(value any) any {
	switch v := value.(type) {
	case string:
		return k.string(v)
	case json.Number:
		if len(v) > k.text {
			return k.string(string(v))
		}
	case []any:
		if k.depth == 0 {
			return "…"
		}
		list := make([]any, 0, min(len(v), k.items))
		for _, item := range v[:min(len(v), k.items)] {
			list = append(list, k.below().of(item))
		}
		return list
	case map[string]any:
		if k.depth == 0 {
			return "…"
		}
		object := make(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if len(object) == k.items {
				break
			}
			if len(name) <= k.text {
				object[name] = k.below().of(v[name])
			}
		}
		return object
	}
	return value
}

func (k detail) below() detail { return detail{k.text, k.items, k.depth - 1} }

func (k detail) string(s string) string {
	if len(s) <= k.text {
		return s
	}
	return cutText(s, k.text) + "…"
}

// pruner reads JSON, which is valid, and builds no more of it than it keeps: all of
// a large payload would take many times its size.
type pruner struct {
	b []byte
	i int
}

// value reads one value, and leaves the pruner behind it.
func (p *pruner) value(k detail) any {
	p.space()
	switch p.b[p.i] {
	case '"':
		return k.string(textOf(p.skip()))
	case '[':
		if k.depth > 0 {
			return p.list(k)
		}
	case '{':
		if k.depth > 0 {
			return p.object(k)
		}
	default:
		switch text := string(p.skip()); {
		case text == "null":
			return nil
		case text == "true" || text == "false":
			return text == "true"
		case len(text) > k.text:
			return k.string(text)
		default:
			return json.Number(text)
		}
	}
	p.skip()
	return "…"
}

func (p *pruner) list(k detail) any {
	list := []any{}
	for more := p.enter(']'); more; more = p.next(']') {
		if len(list) == k.items {
			p.close()
			break
		}
		list = append(list, p.value(k.below()))
	}
	return list
}

func (p *pruner) object(k detail) any {
	object := make(map[string]any)
	for more := p.enter('}'); more; more = p.next('}') {
		if len(object) == k.items {
			p.close()
			break
		}
		name := textOf(p.skip())
		p.space()
		p.i++ // the colon
		p.space()
		if len(name) > k.text {
			p.skip()
			continue
		}
		object[name] = p.value(k.below())
	}
	return object
}

// enter passes over a bracket. There are no elements where the next one closes.
func (p *pruner) enter(closing byte) (more bool) {
	p.i++
	return p.ends(closing)
}

// next passes over the comma behind an element, or over the bracket that closes.
func (p *pruner) next(closing byte) (more bool) {
	p.space()
	if p.b[p.i] == ',' {
		p.i++
		p.space()
		return true
	}
	return p.ends(closing)
}

func (p *pruner) ends(closing byte) (more bool) {
	p.space()
	if p.b[p.i] != closing {
		return true
	}
	p.i++
	return false
}

func (p *pruner) space() {
	for p.i < len(p.b) && strings.IndexByte(" \t\r\n", p.b[p.i]) >= 0 {
		p.i++
	}
}

// skip passes over one value and returns it.
func (p *pruner) skip() json.RawMessage {
	start := p.i
	switch p.b[p.i] {
	case '[', '{':
		p.i++
		p.close()
	case '"':
		p.quoted()
	default:
		for p.i < len(p.b) && strings.IndexByte(",]} \t\r\n", p.b[p.i]) < 0 {
			p.i++
		}
	}
	return p.b[start:p.i]
}

// close passes over the rest of the list or object that it stands in.
func (p *pruner) close() {
	for depth := 1; depth > 0; {
		switch p.b[p.i] {
		case '"':
			p.quoted()
			continue
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		}
		p.i++
	}
}

// quoted passes over a string.
func (p *pruner) quoted() {
	for p.i++; p.b[p.i] != '"'; p.i++ {
		if p.b[p.i] == '\\' {
			p.i++
		}
	}
	p.i++
}
