package field_test

import (
	"encoding/json"
	"math"
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf16"

	"attend/internal/field"
)

// naive answers attune and reckon the plain way: it takes everything that is
// visible, scores it, sorts it and cuts it.
type naive struct {
	entries []field.Entry     // all, in any order; drafts too
	roles   map[string]string // by agent that is registered
	mode    field.Mode

	decoded map[string]map[string]any // payloads by id
}

type ask struct {
	Agent     string  `json:"agent"`
	Topic     any     `json:"topic,omitempty"`
	Role      *string `json:"role,omitempty"`
	MaxUnits  int     `json:"max_units"`
	OnlyTopic bool    `json:"only_topic,omitempty"`
}

func (n *naive) payload(e *field.Entry) map[string]any {
	m, ok := n.decoded[e.ID]
	if !ok {
		if err := json.Unmarshal(e.Entry, &m); err != nil {
			panic(err)
		}
		n.decoded[e.ID] = m
	}
	return m
}

func primitive(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	default:
		return true
	}
}

// is reports strict equality; objects and arrays are equal to nothing.
func is(a, b any) bool { return primitive(a) && primitive(b) && a == b }

func (n *naive) visible(q ask) []field.Entry {
	var out []field.Entry
	for _, e := range n.entries {
		topic, ok := n.payload(&e)["topic"]
		if q.Topic != nil && (n.mode == field.Reference || q.OnlyTopic) && !(ok && is(topic, q.Topic)) {
			continue
		}
		switch e.Status {
		case field.StatusCommitted:
			if e.Agent != q.Agent {
				out = append(out, e)
			}
		case field.StatusDraft:
			if e.Agent == q.Agent {
				out = append(out, e)
			}
		default:
		}
	}
	return out
}

func (n *naive) attune(q ask) []field.Scored {
	visible := n.visible(q)
	newest, oldest := int64(math.MinInt64), int64(math.MaxInt64)
	for _, e := range visible {
		newest, oldest = max(newest, e.Epoch), min(oldest, e.Epoch)
	}
	out := make([]field.Scored, len(visible))
	for i, e := range visible {
		var c field.Components
		if topic, ok := n.payload(&e)["topic"]; q.Topic != nil && ok && is(topic, q.Topic) {
			c.Topic = 0.6
		}
		c.Role = n.role(q, e.Agent)
		share := 1 - float64(newest-e.Epoch)/max(1, float64(newest-oldest))
		c.Recency = float64(0.15 * share)
		c.Intent = n.intent(e.Intent)
		score := c.Topic
		for _, part := range []float64{c.Role, c.Recency, c.Intent} {
			score += part
		}
		out[i] = field.Scored{Entry: e, Score: min(score, 1), Reason: field.Reason{Components: c}}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Epoch > out[j].Epoch })
	sort.SliceStable(out, func(i, j int) bool { return out[i].Score > out[j].Score })
	return out[:min(len(out), q.MaxUnits)]
}

func (n *naive) role(q ask, writer string) float64 {
	reader, known := n.roles[q.Agent]
	if q.Role != nil {
		reader, known = *q.Role, true
	}
	wrote, ok := n.roles[writer]
	if !known || !ok {
		return 0
	}
	if reader == wrote {
		return 0.2
	}
	if n.mode == field.Reference {
		return 0
	}
	words := func(s string) map[string]bool {
		out := make(map[string]bool)
		for _, w := range strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.In(r, unicode.L, unicode.Nd) }) {
			out[w] = true
		}
		return out
	}
	a, b := words(reader), words(wrote)
	both := 0
	for w := range a {
		if b[w] {
			both++
		}
	}
	if both == 0 {
		return 0
	}
	share := float64(both) / float64(len(a)+len(b)-both)
	return 0.2 * share
}

func (n *naive) intent(intent string) float64 {
	if n.mode == field.Reference {
		if len(utf16.Encode([]rune(intent))) >= 50 {
			return 0.05
		}
		return 0
	}
	length := len(utf16.Encode([]rune(strings.TrimSpace(intent))))
	share := min(1, float64(length)/50)
	return 0.05 * share
}

// conflict is a conflict by ids.
type conflict struct {
	A, B string
	Keys []string
}

func (n *naive) conflicts(entries []field.Scored) []conflict {
	type dated struct {
		conflict
		at int64
	}
	var found []dated
	for i := range entries {
		for j := i + 1; j < len(entries); j++ {
			a, b := n.payload(&entries[i].Entry), n.payload(&entries[j].Entry)
			x, ok := a["topic"]
			y, also := b["topic"]
			if !ok || !also || !is(x, y) {
				continue
			}
			var keys []string
			for k, v := range a {
				if other, ok := b[k]; ok && k != "topic" && primitive(v) && primitive(other) && v != other {
					keys = append(keys, k)
				}
			}
			if slices.Sort(keys); keys != nil {
				at := max(entries[i].Timestamp, entries[j].Timestamp)
				found = append(found, dated{conflict{entries[i].ID, entries[j].ID, keys}, at})
			}
		}
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].at < found[j].at })
	out := make([]conflict, len(found))
	for i := range found {
		out[i] = found[i].conflict
	}
	return out
}
