package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"attend/internal/engine"
)

// Sink is where decisions, or dead letters, are delivered: a receiver over HTTP
// or a command.
type Sink struct {
	Place     Place
	Name      string         // unlike that of any other; a label of metrics
	Routes    []engine.Route // whose decisions it takes; none for dead letters
	URL       string         // of a receiver; "" where Command is one
	Key       Secret         // that deliveries to it are signed with: the bytes behind whsec_
	Command   []string
	Variables []Variable    // of the command's environment
	Timeout   time.Duration // of one delivery, beside deliveryTimeoutMs; 0 for none

	plain bool // the file holds the secret itself
}

// To is what people are shown of it: its address without a query, or the
// program.
func (s *Sink) To() string {
	return shownEnd(s.URL, s.Command)
}

// shownEnd is what people are shown of a program or an address: no argument, and
// no query, which may hold a secret.
func shownEnd(address string, command []string) string {
	if len(command) > 0 {
		return filepath.Base(command[0])
	}
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// Keys of attend.yaml.
const (
	keySinks       = "sinks"
	keyDeadLetters = "deadLetters"
)

const (
	// SinkNone is the name of an entry whose routes are delivered to nobody.
	SinkNone = "none"
	// SinkLetters is the name of the handler of dead letters.
	SinkLetters = keyDeadLetters

	maxSinks = 100

	exampleSinks = "a list, as [{name: agent, routes: [interrupt, queue], url: https://agent.example.com/wake, secretEnv: AGENT_SECRET}, {name: none, routes: [note, ask]}]"
)

// What a secret is, as Standard Webhooks has it.
const (
	secretPrefix   = "whsec_"
	minSecretBytes = 24
	maxSecretBytes = 64
)

// sinkKeys are those of an entry, in the order in which they are explained.
func sinkKeys() []string {
	return []string{"name", "routes", "url", "secret", "secretEnv", "command", "env", "timeoutMs"}
}

// delivered are the routes that a sink may take.
func delivered() []engine.Route {
	return []engine.Route{engine.Interrupt, engine.Queue, engine.Note, engine.Ask}
}

// sinkDraft is an entry while it is read.
type sinkDraft struct {
	Sink
	at        string
	where     map[string]spot
	secretEnv string
}

func (d *sinkDraft) has(key string) bool { _, ok := d.where[key]; return ok }

// readSinks reads the list. With one sink, every route that is delivered must
// have one, or say that it has none.
func (r *reader) readSinks(n *yaml.Node) []Sink {
	items := r.items(n, keySinks, exampleSinks)
	if len(items) > maxSinks {
		r.fail(n, keySinks, "has %d entries: may have at most %d", len(items), maxSinks)
		return nil
	}
	var all []Sink
	names, routes := make(map[string]Place), make(map[engine.Route]Place)
	before := len(r.mistakes)
	for i, item := range items {
		at := fmt.Sprintf("%s[%d]", keySinks, i)
		d := r.readSink(item, at, sinkKeys())
		if item.Kind == yaml.MappingNode {
			r.checkSink(item, d, names, routes)
		}
		if d.Name != SinkNone {
			all = append(all, d.Sink)
		}
	}
	if len(r.mistakes) > before || len(items) == 0 {
		return all
	}
	var open []string
	for _, route := range delivered() {
		if _, taken := routes[route]; !taken {
			open = append(open, route.String())
		}
	}
	if len(open) > 0 {
		r.fail(n, keySinks, "no sink takes %s: give each a sink, or say that it has none, as {name: none, routes: [%s]}", strings.Join(open, ", "), strings.Join(open, ", "))
	}
	return all
}

// readLetters reads the handler of dead letters, nil for none.
func (r *reader) readLetters(n *yaml.Node) *Sink {
	if n == nil || isNull(n) {
		return nil
	}
	d := r.readSink(n, keyDeadLetters, sinkKeys()[2:])
	d.Name = SinkLetters
	if n.Kind == yaml.MappingNode {
		r.checkReceiver(n, d)
	}
	return &d.Sink
}

func (r *reader) readSink(n *yaml.Node, at string, keys []string) *sinkDraft {
	d := &sinkDraft{at: at, where: make(map[string]spot), Sink: Sink{Place: r.place(n)}}
	for _, f := range r.fields(n, at, "an object, as {url: https://agent.example.com/wake, secretEnv: AGENT_SECRET}") {
		key := join(at, label(f.name))
		if !slices.Contains(keys, f.name) {
			r.fail(f.key, key, "unknown key%s", didYouMean(f.name, keys))
			continue
		}
		if isNull(f.value) {
			continue
		}
		d.where[f.name] = spot{r.place(f.value), key}
		switch f.name {
		case "name":
			d.Name = r.sourceName(f.value, key)
		case "routes":
			d.Routes = r.sinkRoutes(f.value, key)
		case "url":
			d.URL = r.receiverURL(f.value, key)
		case "secret":
			d.Key, d.plain = r.signingSecret(f.value, key), true
		case "secretEnv":
			d.secretEnv = r.variable(f.value, key)
		case "command":
			d.Command = r.command(f.value, key)
		case "env":
			d.Variables = r.variables(f.value, key)
		case "timeoutMs":
			d.Timeout = time.Duration(r.between(f.value, key, 1, maxDurationMs)) * time.Millisecond
		}
	}
	return d
}

// checkSink looks at what no single key shows.
func (r *reader) checkSink(n *yaml.Node, d *sinkDraft, names map[string]Place, routes map[engine.Route]Place) {
	switch first, again := names[d.Name]; {
	case !d.has("name"):
		r.fail(n, d.at, "has no name: it names the sink in steps and metrics")
	case d.Name == SinkLetters:
		r.fail(n, d.at, "has the name of the handler of dead letters: choose another")
	case again && d.Name != "":
		r.fail(n, d.at, "the name %s is given twice, first at %s", quote(d.Name), first)
	}
	names[d.Name] = d.Place
	if !d.has("routes") {
		r.fail(n, d.at, "has no routes: they say whose decisions it takes, as [interrupt, queue]")
	}
	for _, route := range d.Routes {
		if first, again := routes[route]; again {
			r.fail(n, d.at, "takes %s, which the sink at %s takes: a route has one sink", route, first)
			continue
		}
		routes[route] = d.Place
	}
	if d.Name != SinkNone {
		r.checkReceiver(n, d)
		return
	}
	for _, key := range sinkKeys()[2:] {
		if d.has(key) {
			r.fail(n, d.at, "has a %s, and the name none, which is for routes that are delivered to nobody", key)
		}
	}
}

// checkReceiver looks at who is called, and finds the secret.
func (r *reader) checkReceiver(n *yaml.Node, d *sinkDraft) {
	switch {
	case d.has("url") == d.has("command"):
		r.fail(n, d.at, "needs either url or command: a receiver over HTTP, or a program")
	case d.has("command") && (d.has("secret") || d.has("secretEnv")):
		r.fail(n, d.at, "has a secret beside command: a program gets what it needs by env")
	case d.has("url") && d.has("env"):
		r.fail(n, d.at, "has env beside url: it is for a command")
	case d.has("secret") && d.has("secretEnv"):
		r.fail(n, d.at, "has both secret and secretEnv: give one of them, better secretEnv")
	case d.has("url") && !d.has("secret") && !d.has("secretEnv"):
		r.fail(n, d.at, "has no secret: what is sent to a url is signed, so name the variable that holds it in secretEnv; %s", makeSecret)
	}
	if d.secretEnv == "" {
		return
	}
	at := d.where["secretEnv"]
	value := r.env[d.secretEnv]
	if value == "" && r.keyless {
		return
	}
	if value == "" {
		r.mistakes = append(r.mistakes, Mistake{at.place, at.key, fmt.Sprintf("names the variable %s, which is not set", d.secretEnv)})
		return
	}
	key, err := parseSecret(value)
	if err != nil {
		r.mistakes = append(r.mistakes, Mistake{at.place, at.key, fmt.Sprintf("names the variable %s, which %v", d.secretEnv, err)})
	}
	d.Key = key
}

const makeSecret = `make one with: echo "whsec_$(openssl rand -base64 32)"`

// signingSecret reads a secret, and quotes none of it.
func (r *reader) signingSecret(n *yaml.Node, key string) Secret {
	text, ok := r.secretText(n, key)
	if !ok {
		return ""
	}
	secret, err := parseSecret(text)
	if err != nil {
		r.fail(n, key, "%v", err)
	}
	return secret
}

// parseSecret decodes a secret. The error says nothing of what is in it.
func parseSecret(text string) (Secret, error) {
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	if !ok {
		return "", errors.New("must begin with whsec_: " + makeSecret)
	}
	key, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || strings.ContainsAny(encoded, "\r\n") {
		return "", errors.New("must be whsec_ and base64, with its padding: " + makeSecret)
	}
	if len(key) < minSecretBytes || len(key) > maxSecretBytes {
		return "", fmt.Errorf("has %d bytes behind whsec_: must have %d to %d", len(key), minSecretBytes, maxSecretBytes)
	}
	return Secret(key), nil
}

// sinkRoutes reads the routes that a sink takes.
func (r *reader) sinkRoutes(n *yaml.Node, key string) []engine.Route {
	var all []engine.Route
	for _, item := range r.oneOrMore(n, key) {
		route, ok := r.route(item, key)
		switch {
		case !ok:
		case !slices.Contains(delivered(), route):
			r.fail(item, key, "holds %s, which is never delivered: want interrupt, queue, note or ask", route)
		case slices.Contains(all, route):
			r.fail(item, key, "holds %s twice", route)
		default:
			all = append(all, route)
		}
	}
	return all
}

// receiverURL reads an address. It may hold a secret, and is not quoted.
func (r *reader) receiverURL(n *yaml.Node, key string) string {
	text, ok := r.secretText(n, key)
	if !ok {
		return ""
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || (u.Scheme != "http" && u.Scheme != "https"):
		r.fail(n, key, "must be http:// or https:// and a host, as https://agent.example.com/wake")
	case u.User != nil:
		r.fail(n, key, "holds a user or password: what is sent is signed instead")
	case u.Fragment != "":
		r.fail(n, key, "holds a #: no receiver sees what stands behind it")
	}
	return text
}

// warnSinks warns of secrets that everyone may read, of what crosses the
// network in the clear, and of a time that no delivery gets.
func (l *loader) warnSinks() {
	all := slices.Clone(l.c.Sinks)
	if l.c.DeadLetters != nil {
		all = append(all, *l.c.DeadLetters)
	}
	told := false
	for i := range all {
		s := &all[i]
		if s.plain && !told {
			l.warnSecret(keySinks, s.Place, "use secretEnv")
			told = true
		}
		if u, err := url.Parse(s.URL); err == nil && u.Scheme == "http" && !loopback(u.Hostname()) {
			l.warn(s.Place, WarnPlainHTTP, "the sink %s is sent decisions over the network as plain text: use https", s.Name)
		}
		if most := l.c.Settings.DeliveryTimeoutMs; s.Timeout > time.Duration(most)*time.Millisecond {
			l.warn(s.Place, WarnIgnored, "the sink %s has a timeoutMs longer than deliveryTimeoutMs (%d), at which the attempt ends", s.Name, most)
		}
	}
}

// lanes writes sinks into a policy. One without a name is a mistake that has
// been told.
func (c *Config) lanes(p *engine.Policy) {
	for i := range c.Sinks {
		if c.Sinks[i].Name == "" {
			continue
		}
		for _, route := range c.Sinks[i].Routes {
			if p.Sinks == nil {
				p.Sinks = make(map[engine.Route]string)
			}
			p.Sinks[route] = c.Sinks[i].Name
		}
	}
	if c.DeadLetters != nil {
		p.Letters = c.DeadLetters.Name
	}
}

// SinkReport is a sink: what it takes, and where that goes.
type SinkReport struct {
	Place  Place          `json:"place"`
	Name   string         `json:"name"`
	Routes []engine.Route `json:"routes"` // empty for the handler of dead letters
	To     string         `json:"to"`     // an address without its query, or a program
}

func (c *Config) reportSinks() []SinkReport {
	all := []SinkReport{}
	for i := range c.Sinks {
		s := &c.Sinks[i]
		all = append(all, SinkReport{s.Place, s.Name, append([]engine.Route{}, s.Routes...), s.To()})
	}
	if s := c.DeadLetters; s != nil {
		all = append(all, SinkReport{s.Place, s.Name, []engine.Route{}, s.To()})
	}
	return all
}
