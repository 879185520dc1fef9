package hooks

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"attend/internal/engine"
)

// alertmanager reads notifications of Alertmanager (webhook_config, version 4):
// one event for each alert.
type alertmanager struct{ scope scoper }

// alert is one of a notification.
type alert struct {
	Status      string            `json:"status"` // "firing" or "resolved"
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    string            `json:"startsAt"`
	EndsAt      string            `json:"endsAt"`
	Fingerprint string            `json:"fingerprint"`
}

// groupMembers of a notification are told with each of its alerts.
func groupMembers() []string { return []string{"groupKey", "groupLabels", "receiver", "externalURL"} }

// What each alert is told of its group. A notification may hold tens of thousands
// of alerts: what all of them are told together is bounded, too.
const (
	maxGroupMember  = 2 << 10
	minGroupMember  = 64
	maxGroupMembers = 2 * maxBody // told with all alerts of a notification
)

// group is what the alerts of a notification have in common.
type group struct {
	members map[string]json.RawMessage // for scopes: the same, however many alerts come with them
	told    map[string]json.RawMessage // for data
	cut     int                        // bytes of the members as they came, where something of them is not told; else 0
}

// groupOf cuts the members of a group down.
func groupOf(notification map[string]json.RawMessage, alerts int) *group {
	g := &group{members: make(map[string]json.RawMessage), told: make(map[string]json.RawMessage)}
	names := groupMembers()
	share := max(minGroupMember, min(maxGroupMember, maxGroupMembers/max(1, alerts)/len(names)))
	whole, told := 0, 0
	for _, name := range names {
		if value, there := notification[name]; there {
			g.members[name] = shorten(value, maxGroupMember)
			g.told[name] = shorten(value, share)
			whole, told = whole+len(value), told+len(g.told[name])
		}
	}
	if told < whole {
		g.cut = whole
	}
	return g
}

// shorten cuts a value down. A hash stands in place of what is cut off a text,
// so that two groups stay two.
func shorten(value json.RawMessage, most int) json.RawMessage {
	if len(value) <= most {
		return value
	}
	if text := textOf(value); text != "" {
		return encode(fitted(text, most))
	}
	return project(value, note{true, len(value)}, most)
}

func (a alertmanager) read(r *request) (*reading, *refusal) {
	if mediaOf(r.header) != typeJSON {
		return nil, wrongType(typeJSON)
	}
	var notification map[string]json.RawMessage
	if err := json.Unmarshal(r.body, &notification); err != nil || notification == nil {
		return nil, invalid("the body is no JSON object")
	}
	var alerts []json.RawMessage
	if err := json.Unmarshal(notification["alerts"], &alerts); err != nil {
		return nil, invalid("the body has no list alerts")
	}
	group := groupOf(notification, len(alerts))
	read := r.reading()
	for i, raw := range alerts {
		event, err := a.event(raw, group)
		if err != nil {
			read.fault(i+1, fmt.Sprintf("alerts[%d]: %v", i, err))
			continue
		}
		event.number = i + 1
		read.add(event)
	}
	return read, nil
}

func (a alertmanager) event(raw json.RawMessage, group *group) (*Event, error) {
	var one alert
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return nil, fmt.Errorf("is no object")
	}
	if err := json.Unmarshal(raw, &one); err != nil {
		return nil, fmt.Errorf("a label, annotation, time or the status is no text")
	}
	if one.Status != "firing" && one.Status != "resolved" {
		return nil, fmt.Errorf("status is neither firing nor resolved")
	}
	if _, err := parseTime(one.StartsAt); err != nil {
		return nil, fmt.Errorf("startsAt is no RFC 3339 time")
	}
	e := &Event{Name: "alert." + one.Status, ID: one.id(), At: one.at(), Text: one.text()}
	own := maps.Clone(members)
	with(members, group.members)
	e.Scope = a.scope.of(members)
	with(own, group.told)
	if group.cut > 0 {
		e.whole = len(raw) + group.cut
		own[noteName] = encode(note{true, e.whole})
	}
	e.Data = encode(own)
	return e, nil
}

// with adds members that are not there already.
func with(members, more map[string]json.RawMessage) {
	for name, value := range more { //arch:sorted into a map again
		if members[name] == nil {
			members[name] = value
		}
	}
}

// id is the same for each repetition, and another one when the alert is
// resolved, or comes again later.
func (a *alert) id() string {
	fingerprint := a.Fingerprint
	if fingerprint == "" { // versions before 0.16 send none
		sum := sha256.Sum256(encode(a.Labels)) // which sorts them
		fingerprint = hex.EncodeToString(sum[:16])
	}
	return fitted(fingerprint+" "+a.StartsAt+" "+a.Status, maxID)
}

// maxID is how many bytes an id may have.
const maxID = 256

// at is when the alert came to be what it is.
func (a *alert) at() *engine.Time {
	when := a.StartsAt
	if a.Status == "resolved" {
		when = a.EndsAt
	}
	return instant(when)
}

// instant reads an RFC 3339 time, nil for what is none or of no year that
// events have.
func instant(text string) *engine.Time {
	t, err := parseTime(text)
	if err != nil || t.Year() < 0 || t.Year() > 9999 {
		return nil
	}
	at := engine.Time(t.UnixMilli())
	return &at
}

// parseTime reads an RFC 3339 time, whose T and Z may be small (section 5.6).
func parseTime(text string) (time.Time, error) {
	return time.Parse(time.RFC3339, strings.ToUpper(text)) //nolint:wrapcheck // what is wrong is said by who asks
}

func (a *alert) text() string {
	said := a.Annotations["summary"]
	if said == "" {
		said = a.Annotations["description"]
	}
	what := line(strings.ToUpper(a.Status)+" "+a.Labels["alertname"], maxTitle)
	if said = line(said, maxQuote); said != "" {
		what += ": " + said
	}
	return what
}
