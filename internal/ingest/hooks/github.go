package hooks

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
)

// Headers of GitHub's deliveries.
const (
	headerGitHubEvent    = "X-GitHub-Event"
	headerGitHubDelivery = "X-GitHub-Delivery"
)

// github reads webhooks of GitHub: one event each, with the delivery as its id.
type github struct{ scope scoper }

func (g github) read(r *request) (*reading, *refusal) {
	body, refused := githubBody(r)
	if refused != nil {
		return nil, refused
	}
	event := headerText(r.header, headerGitHubEvent)
	if event == "" {
		return nil, invalid("X-GitHub-Event is missing: it says which event this is")
	}
	if event == "ping" {
		return r.reading(), nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return nil, invalid("the payload is no JSON object")
	}
	name := "github." + event
	if action := textOf(members["action"]); action != "" {
		name += "." + action
	}
	read := r.reading()
	read.add(&Event{
		Scope: g.scope.of(members), Name: name, ID: fitted(headerText(r.header, headerGitHubDelivery), maxID), Data: body, Text: githubText(event, body),
	})
	return read, nil
}

// headerText returns a header as text: a sender may put any bytes into it.
func headerText(h http.Header, name string) string {
	return strings.ToValidUTF8(h.Get(name), "\ufffd")
}

// githubBody returns the payload, which is the body or one field of a form.
func githubBody(r *request) ([]byte, *refusal) {
	switch mediaOf(r.header) {
	case typeJSON:
		return bytes.TrimSpace(r.body), nil
	case typeForm:
		form, err := url.ParseQuery(string(r.body))
		if err != nil || !form.Has("payload") {
			return nil, invalid("the form has no field payload")
		}
		payload := form.Get("payload")
		if len(payload) > maxGitHubBody {
			return nil, tooLarge(maxGitHubBody)
		}
		return bytes.TrimSpace([]byte(payload)), nil
	default:
		return nil, wrongType(typeJSON + " or " + typeForm)
	}
}

// Media types of bodies.
const (
	typeJSON = "application/json"
	typeForm = "application/x-www-form-urlencoded"
)

func wrongType(want string) *refusal {
	return refuse(http.StatusUnsupportedMediaType, "unsupportedMediaType", "this hook takes "+want, resultInvalid)
}

// invalid refuses what will never be taken.
func invalid(detail string) *refusal {
	return refuse(http.StatusUnprocessableEntity, "invalidBody", detail, resultInvalid)
}
