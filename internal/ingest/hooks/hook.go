package hooks

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"time"
)

// Type says in which form a sender posts.
type Type string

// The types of hook.
const (
	GitHub           Type = "github"           // webhooks of repositories, organisations and Apps
	Alertmanager     Type = "alertmanager"     // webhook_config of Prometheus' Alertmanager
	CloudEvents      Type = "cloudevents"      // CloudEvents 1.0 over HTTP: structured, batched, binary
	StandardWebhooks Type = "standardwebhooks" // standardwebhooks.com
	Generic          Type = "generic"          // JSON or a form, signed and mapped as configured
)

// Types lists them.
func Types() []Type {
	return []Type{GitHub, Alertmanager, CloudEvents, StandardWebhooks, Generic}
}

// Hook is one that is configured.
type Hook struct {
	Name string
	Type Type
	// Scope makes the scope of an event, see [ParseTemplate]; "" is the type's
	// own. Generic and StandardWebhooks have Event.Scope in its place.
	Scope string

	// One of these is given. Of each there may be several, while one takes the
	// place of another.
	Secrets [][]byte  // that sign, by the type or by Signature
	Bearer  []string  // tokens that a request bears
	Basic   *Basic    // a user and passwords
	Scheme  Signature // how Secrets sign, where the type does not say

	// Tolerance is how far from now a signed timestamp may be; 0 is 5 minutes.
	Tolerance time.Duration

	Event Mapping // of Generic and StandardWebhooks
}

// Basic is whom a request comes from by HTTP's basic authentication.
type Basic struct {
	User      string
	Passwords []string
}

// DefaultTolerance is how far from now a signed timestamp may be.
const DefaultTolerance = 5 * time.Minute

// request is one whose secret has been checked.
type request struct {
	header http.Header
	query  url.Values
	body   []byte
	id     string         // that the signature's scheme names; "" for none
	fit    func(e *Event) // cuts an event down to what one of its scope may have
}

// reading is what a request was read as.
type reading struct {
	events   []Event
	faults   []Fault // of what could not be read, the first of them; the others count
	rejected int     // how many faults there were
	reply    string  // what the sender wants to hear in place of an answer

	fit func(e *Event)
}

// maxFaults is how many faults are told. All are counted.
const maxFaults = 100

func (r *request) reading() *reading { return &reading{fit: r.fit} }

// add takes an event, cut down at once: a request may make many of them.
func (r *reading) add(e *Event) {
	r.fit(e)
	r.events = append(r.events, *e)
}

// fault notes what is wrong with the event of a number.
func (r *reading) fault(number int, text string) {
	if r.rejected++; len(r.faults) < maxFaults {
		r.faults = append(r.faults, Fault{number, text})
	}
}

// receiver is a hook, compiled. One of bears and signed is set.
type receiver struct {
	room   room // its share
	name   string
	kind   Type
	bears  func(h http.Header) error
	signed verifier
	read   func(r *request) (*reading, *refusal)
}

// verifier checks a signature, and returns the id that it names. The error says
// why the request is not believed.
type verifier interface {
	verify(h http.Header, body []byte, now time.Time) (id string, err error)
}

// Bodies that are larger are not read. GitHub sends payloads of at most 25 MB,
// which are larger where they come as a form.
const (
	maxBody       = 4 << 20
	maxGitHubBody = 25 << 20
	maxGitHubForm = 40 << 20
)

// most is how many bytes a body may have.
func (r *receiver) most(h http.Header) int64 {
	switch {
	case r.kind != GitHub:
		return maxBody
	case mediaOf(h) == typeForm:
		return maxGitHubForm
	default:
		return maxGitHubBody
	}
}

func mediaOf(h http.Header) string {
	media, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return media
}

// compile makes a receiver. The errors are for whoever configures.
func (h *Hook) compile() (*receiver, error) {
	r := &receiver{name: h.Name, kind: h.Type}
	if err := h.secure(r); err != nil {
		return nil, err
	}
	scope, err := h.template()
	if err != nil {
		return nil, err
	}
	switch h.Type {
	case GitHub:
		r.read = github{scope}.read
	case Alertmanager:
		r.read = alertmanager{scope}.read
	case CloudEvents:
		r.read = cloudevents{scope}.read
	case StandardWebhooks, Generic:
		m, err := h.mapping()
		if err != nil {
			return nil, err
		}
		r.read = m.read
	default:
		return nil, fmt.Errorf("unknown type %q", h.Type)
	}
	return r, nil
}

// secure sets how the receiver knows its sender.
func (h *Hook) secure(r *receiver) (err error) {
	given := 0
	for _, there := range []bool{len(h.Secrets) > 0, len(h.Bearer) > 0, h.Basic != nil} {
		if there {
			given++
		}
	}
	switch {
	case given == 0:
		return errors.New("has neither a secret that signs nor one that is borne: anybody could send it events")
	case given > 1:
		return errors.New("has more than one way to know its sender: give one")
	case len(h.Bearer) > 0:
		r.bears = bearing(h.Bearer)
	case h.Basic != nil:
		r.bears = basic(h.Basic)
	}
	if r.room = newRoom(openSmallShare, openLargeShare); r.bears != nil {
		r.room = newRoom(knownSmallShare, knownLargeShare)
		if h.Type == GitHub || h.Type == StandardWebhooks {
			return fmt.Errorf("%s signs what it sends: give the secret that it signs with", h.Type)
		}
		return nil
	}
	tolerance := h.Tolerance
	if tolerance == 0 {
		tolerance = DefaultTolerance
	}
	switch h.Type {
	case GitHub:
		s := Signature{Header: "X-Hub-Signature-256", Prefix: "sha256="}
		r.signed, err = s.compile(h.Secrets, tolerance)
	case StandardWebhooks:
		r.signed, err = newStandard(h.Secrets, tolerance)
	default:
		r.signed, err = h.Scheme.compile(h.Secrets, tolerance)
	}
	return err
}

// template returns what makes the scopes, with a scope for what it cannot fill.
func (h *Hook) template() (scoper, error) {
	text := h.Scope
	if text == "" {
		text = DefaultScope(h.Type)
	}
	t, err := ParseTemplate(text)
	return scoper{t, string(h.Type) + ":" + h.Name}, err
}

// DefaultScope is the template of a type, "" where it has none.
func DefaultScope(t Type) string {
	switch t {
	case GitHub:
		return "repo:{repository.full_name}"
	case Alertmanager:
		return "alerts:{groupKey}"
	case CloudEvents:
		return "{source}"
	default:
		return ""
	}
}
