package hooks

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"mime"
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

func (a alertmanager) read(r *request) (*reading, *refusal) {
	if media, _, _ := mime.ParseMediaType(r.header.Get("Content-Type")); media != typeJSON {
		return nil, wrongType(typeJSON)
	}
	var group map[string]json.RawMessage
	if err := json.Unmarshal(r.body, &group); err != nil || group == nil {
		return nil, invalid("the body is no JSON object")
	}
	var alerts []json.RawMessage
	if err := json.Unmarshal(group["alerts"], &alerts); err != nil {
		return nil, invalid("the body has no list alerts")
	}
	read := new(reading)
	for i, raw := range alerts {
		event, err := a.event(raw, group)
		if err != nil {
			read.faults = append(read.faults, Fault{i + 1, fmt.Sprintf("alerts[%d]: %v", i, err)})
			continue
		}
		event.number = i + 1
		read.events = append(read.events, *event)
	}
	return read, nil
}

func (a alertmanager) event(raw json.RawMessage, group map[string]json.RawMessage) (*Event, error) {
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
	if _, err := time.Parse(time.RFC3339, one.StartsAt); err != nil {
		return nil, fmt.Errorf("startsAt is no RFC 3339 time")
	}
	for _, name := range groupMembers() {
		if value, there := group[name]; there && members[name] == nil {
			members[name] = value
		}
	}
	return &Event{
		Scope: a.scope.of(members), Name: "alert." + one.Status, ID: one.id(), At: one.at(), Data: encode(members), Text: one.text(),
	}, nil
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
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.Year() < 0 || t.Year() > 9999 {
		return nil
	}
	at := engine.Time(t.UnixMilli())
	return &at
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
