package fields

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"attend/internal/field"
)

// entryDataOf carries the members of the payload that fit, shortest first, so
// that one long text does not push out all else.
func entryDataOf(name string, e *field.Entry, payload map[string]json.RawMessage) *entryData {
	d := &entryData{
		ID: e.ID, Field: name, Agent: e.Agent, Topic: clipValue(payload["topic"], maxEventValue), Intent: clip(e.Intent, maxEventIntent),
		Entry: make(map[string]json.RawMessage, len(payload)),
	}
	keys := slices.SortedFunc(maps.Keys(payload), func(a, b string) int {
		if d := len(a) + len(payload[a]) - len(b) - len(payload[b]); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	room := maxEventEntry
	for _, k := range keys {
		if room -= len(k) + len(payload[k]); room < 0 {
			d.Cut++
			continue
		}
		d.Entry[k] = payload[k]
	}
	return d
}

func conflictDataOf(name string, c *field.Conflict, a, b map[string]json.RawMessage) *conflictData {
	keys := c.Keys[:min(len(c.Keys), maxEventKeys)]
	return &conflictData{
		Field: name, Topic: clipValue(a["topic"], maxEventValue), Keys: keys, MoreKey: len(c.Keys) - len(keys),
		A: sideDataOf(c.A, keys, a), B: sideDataOf(c.B, keys, b),
	}
}

func sideDataOf(e *field.Scored, keys []string, payload map[string]json.RawMessage) sideData {
	values := make(map[string]json.RawMessage, len(keys))
	for _, k := range keys {
		values[k] = clipValue(payload[k], maxEventValue)
	}
	return sideData{ID: e.ID, Agent: e.Agent, Intent: clip(e.Intent, maxEventIntent), Values: values}
}

// entryText is a committed entry as an agent reads it.
func entryText(name string, e *field.Entry, payload map[string]json.RawMessage) string {
	return fmt.Sprintf("%s wrote %s: %s", who(e.Agent), inTopic(name, payload["topic"]), plain(clip(e.Intent, maxTextIntent)))
}

// conflictText is a conflict as an agent reads it, the new entry first:
// gull and kelp disagree about price in competitor-pricing: "$39/mo" against "$49/mo".
func conflictText(c *field.Conflict, a, b map[string]json.RawMessage) string {
	keys := c.Keys[:min(len(c.Keys), maxTextKeys)]
	names, values := make([]string, len(keys)), make([]string, len(keys))
	for i, k := range keys {
		names[i] = plain(clip(k, maxTextValue))
		values[i] = shown(a[k]) + " against " + shown(b[k])
		if len(keys) > 1 {
			values[i] = names[i] + " " + values[i]
		}
	}
	about := strings.Join(names, " and ")
	if len(keys) > 2 {
		about = strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
	}
	if more := len(c.Keys) - len(keys); more > 0 {
		about = fmt.Sprintf("%s and %d more", strings.Join(names, ", "), more)
	}
	both := who(c.A.Agent) + " and " + who(c.B.Agent) + " disagree"
	if c.A.Agent == c.B.Agent && c.A.Agent != "" {
		both = who(c.A.Agent) + " contradicts itself"
	}
	return fmt.Sprintf("%s about %s %s: %s", both, about, inTopic("", a["topic"]), strings.Join(values, ", "))
}

// who names an agent in a text.
func who(agent string) string {
	if agent == "" {
		return "somebody"
	}
	return plain(agent)
}

// inTopic says where something is, in a text.
func inTopic(name string, topic json.RawMessage) string {
	if len(topic) == 0 {
		return "in " + plain(name)
	}
	var s string
	if json.Unmarshal(topic, &s) != nil || topic[0] != '"' {
		s = shown(topic)
	}
	return "in " + plain(clip(s, maxTextValue))
}

// shown is a value in a text: its JSON on one line, cut where it is long.
func shown(value json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Compact(&b, clipValue(value, maxTextValue)); err != nil {
		return "?" // not reached: it has been read
	}
	return plain(b.String())
}

// plain keeps a text on one line.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, s)
}

// clip cuts a text to n bytes, and shows that it is cut.
func clip(s string, n int) string {
	const mark = "…"
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n-len(mark)], "") + mark
}

// clipValue cuts a primitive JSON value that is long: a text stays a text, and
// a number of many digits becomes one.
func clipValue(value json.RawMessage, n int) json.RawMessage {
	if len(value) <= n {
		return value
	}
	var s string
	if json.Unmarshal(value, &s) != nil {
		s = string(value)
	}
	b, _ := verbatim(clip(s, n/2)) // a string: it cannot fail
	return b
}

// verbatim encodes without the escapes that a web page would need: what an agent
// wrote as "<" is shown so.
func verbatim(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
