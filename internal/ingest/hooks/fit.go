package hooks

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// note stands in data that was cut down, so that nobody takes it for whole.
type note struct {
	Cut   bool `json:"cut"`
	Bytes int  `json:"bytes"` // of the data as it came
}

// noteName is the member that holds the note.
const noteName = "_attend"

// maxText is how many bytes of text stay where an event is too large.
const maxText = 4 << 10

// fit cuts the data of an event down to what one event of its scope may have:
// an event that tells less is worth more than one that is refused.
func (s *Service) fit(e *Event) {
	if s.limit == nil {
		return
	}
	most := s.limit(e.Scope)
	size := func() int64 {
		return int64(len(e.Scope) + len(e.Name) + len(e.ID) + len(e.Text) + len(e.Data))
	}
	if size() <= most {
		return
	}
	if len(e.Text) > maxText {
		e.Text = cutText(e.Text, maxText) + "…"
	}
	if len(e.Data) > 0 && size() > most {
		e.Data = project(e.Data, int(most-size())+len(e.Data))
	}
}

// detail is how much of a value a projection keeps.
type detail struct{ text, items, depth int }

// project returns as much of a JSON value as goes into so many bytes: long texts,
// lists and objects are cut, each as far as all others.
func project(data []byte, most int) []byte {
	whole := note{Cut: true, Bytes: len(data)}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var value any
	if d.Decode(&value) == nil {
		for _, keep := range []detail{{4096, 100, 12}, {1024, 30, 8}, {256, 10, 6}, {64, 4, 4}} {
			object, is := keep.of(value).(map[string]any)
			if !is {
				object = map[string]any{"value": keep.of(value)}
			}
			object[noteName] = whole
			if b := encode(object); len(b) <= most {
				return b
			}
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

// encode writes a value that came from JSON.
func encode(value any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(value) // what was read as JSON can be written
	return bytes.TrimRight(b.Bytes(), "\n")
}

// line makes one line of text that a sender wrote, and not too long a one.
func line(text string, most int) string {
	short := strings.Join(strings.Fields(cutText(text, 4*most)), " ")
	if len(short) > most {
		return cutText(short, most) + "…"
	}
	return short
}
