package hooks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"attend/internal/expr"
)

// Mapping makes an event of a request: an expression in CEL for each part, over
// body, headers and query. "" leaves a part out; Generic must have scope and
// name.
type Mapping struct {
	Scope, Name, ID, At, Text string
	Data                      string // "" is the whole body
	// Challenge gives the text that a sender wants to hear back, as one that
	// checks an address does; "" or null where this request is no such check.
	Challenge string
}

// Part is one expression of a mapping.
type Part struct {
	Name   string // as it is configured
	Source string
	Result expr.Result
}

// Parts lists the expressions of a mapping, those that are left out too.
func (m *Mapping) Parts() []Part {
	return []Part{
		{"scope", m.Scope, expr.String},
		{"name", m.Name, expr.String},
		{"id", m.ID, expr.String},
		{"at", m.At, expr.Time},
		{"text", m.Text, expr.String},
		{"data", m.Data, expr.JSON},
		{"challenge", m.Challenge, expr.String},
	}
}

// Hides reports whether mappings are not shown a header: one by which a sender is
// known would stand in the log with all that a mapping gives.
func (s *Signature) Hides(header string) bool {
	hidden := []string{"Authorization", "Cookie", "Proxy-Authorization", "Webhook-Signature"}
	return strings.EqualFold(header, s.Header) || slices.Contains(hidden, http.CanonicalHeaderKey(header))
}

// mapper is a mapping, compiled.
type mapper struct {
	hides    func(header string) bool
	programs map[string]*expr.Program
	defaults func(body []byte) Event // what it does not say
}

// mapping compiles that of a hook.
func (h *Hook) mapping() (*mapper, error) {
	env, err := expr.New(expr.Hook)
	if err != nil {
		return nil, err
	}
	m := &mapper{hides: h.Scheme.Hides, programs: make(map[string]*expr.Program)}
	if h.Type == StandardWebhooks {
		m.defaults = recommended(string(h.Type) + ":" + h.Name)
	}
	for _, part := range h.Event.Parts() {
		if part.Source == "" {
			if m.defaults == nil && (part.Name == "scope" || part.Name == "name") {
				return nil, fmt.Errorf("event has no %s: every event has one", part.Name)
			}
			continue
		}
		if m.programs[part.Name], err = env.CompileTo(part.Result, part.Source); err != nil {
			return nil, fmt.Errorf("event.%s: %w", part.Name, err)
		}
	}
	return m, nil
}

// recommended reads of a payload what Standard Webhooks recommend that it holds:
// its type and timestamp.
func recommended(scope string) func([]byte) Event {
	return func(body []byte) Event {
		e := Event{Scope: scope, Name: "webhook"}
		var members map[string]json.RawMessage
		if json.Unmarshal(body, &members) == nil {
			if name := textOf(members["type"]); name != "" {
				e.Name = name
			}
			e.At = instant(textOf(members["timestamp"]))
		}
		return e
	}
}

// read makes one event, or answers a challenge.
func (m *mapper) read(r *request) (*reading, *refusal) {
	body, refused := mappedBody(r)
	if refused != nil {
		return nil, refused
	}
	headers := r.header.Clone()
	maps.DeleteFunc(headers, func(name string, _ []string) bool { return m.hides(name) })
	vars := expr.OfHook(body, headers, r.query)
	challenge, refused := m.text("challenge", vars)
	if refused != nil || challenge != "" {
		return &reading{reply: challenge, fit: r.fit}, refused
	}
	var event Event
	if m.defaults != nil {
		event = m.defaults(body)
	}
	event.ID = strings.ToValidUTF8(r.id, "\ufffd")
	for _, part := range []struct {
		name string
		into *string
	}{{"scope", &event.Scope}, {"name", &event.Name}, {"id", &event.ID}, {"text", &event.Text}} {
		if m.programs[part.name] == nil {
			continue
		}
		if *part.into, refused = m.text(part.name, vars); refused != nil {
			return nil, refused
		}
	}
	event.Scope, event.ID = fitScope(event.Scope), fitted(event.ID, maxID)
	if p := m.programs["at"]; p != nil {
		at, there, err := p.Time(vars)
		if err != nil {
			return nil, unmapped("at", err)
		}
		if event.At = nil; there {
			event.At = &at
		}
	}
	if event.Data, refused = m.data(body, vars); refused != nil {
		return nil, refused
	}
	read := r.reading()
	read.add(&event)
	return read, nil
}

// text is the value of a part, "" where the mapping has none.
func (m *mapper) text(name string, vars *expr.Vars) (string, *refusal) {
	p := m.programs[name]
	if p == nil {
		return "", nil
	}
	text, err := p.String(vars)
	if err != nil {
		return "", unmapped(name, err)
	}
	return text, nil
}

// data keeps the body byte for byte where it is the data.
func (m *mapper) data(body []byte, vars *expr.Vars) ([]byte, *refusal) {
	p := m.programs["data"]
	if p == nil || strings.TrimSpace(p.Source()) == "body" {
		return body, nil
	}
	data, err := p.JSON(vars)
	if err != nil {
		return nil, unmapped("data", err)
	}
	return data, nil
}

func unmapped(part string, err error) *refusal {
	return refuse(http.StatusUnprocessableEntity, "mappingFailed", fmt.Sprintf("event.%s %v", part, err), resultInvalid)
}

// mappedBody returns a body as JSON. Of a form it is an object of its fields, the
// first of each name.
func mappedBody(r *request) ([]byte, *refusal) {
	media := mediaOf(r.header)
	switch {
	case isJSON(media):
		body := bytes.TrimSpace(r.body)
		if !json.Valid(body) {
			return nil, invalid("the body is no JSON")
		}
		return body, nil
	case media == typeForm:
		form, err := url.ParseQuery(string(r.body))
		if err != nil {
			return nil, invalid("the body is no form")
		}
		fields := make(map[string]string, len(form))
		for name := range form { //arch:sorted into a map again
			fields[name] = form.Get(name)
		}
		return encode(fields), nil
	default:
		return nil, wrongType(typeJSON + " or " + typeForm)
	}
}
