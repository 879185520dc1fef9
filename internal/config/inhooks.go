package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"attend/internal/access"
	"attend/internal/ingest/hooks"
)

// InHook is an entry of hooks: a path that a sender posts to, and what becomes
// of what it sends.
type InHook struct {
	Place Place
	Name  string // unlike that of any other; the path is /v1/hooks/{name}
	Type  hooks.Type
	Scope string // a template; "" for the type's own

	Secrets   []Secret // that sign; as the type writes them
	Bearer    []Secret // tokens that a request bears
	User      string   // of basic authentication
	Passwords []Secret
	Signature hooks.Signature
	Tolerance time.Duration

	Event hooks.Mapping
}

// keyHooks is the list of them in attend.yaml.
const keyHooks = "hooks"

// Bounds of a hook.
const (
	maxHooks   = 100
	maxSecrets = 5 // at once, while they rotate
	maxHeader  = 256

	maxToleranceMs = 24 * 60 * 60 * 1000 // what was seen could be sent again for as long

	exampleHooks = `a list, as [{name: github, type: github, secretEnv: GITHUB_WEBHOOK_SECRET}]`
)

// inHookDraft is an entry while it is read.
type inHookDraft struct {
	InHook
	at    string
	where map[string]spot
}

// inHookOption is a key of an entry, with the types that take it.
type inHookOption struct {
	name  string
	types []hooks.Type // none: all of them
	read  func(r *reader, n *yaml.Node, key string, d *inHookDraft)
}

// inHookOptions is the one table of them.
func inHookOptions() []inHookOption {
	mapped := []hooks.Type{hooks.Generic, hooks.StandardWebhooks}
	borne := []hooks.Type{hooks.Alertmanager, hooks.CloudEvents, hooks.Generic}
	return []inHookOption{
		{"name", nil, func(r *reader, n *yaml.Node, key string, d *inHookDraft) { d.Name = r.sourceName(n, key) }},
		{"type", nil, func(r *reader, n *yaml.Node, key string, d *inHookDraft) { d.Type = r.hookType(n, key) }},
		{"scope", []hooks.Type{hooks.GitHub, hooks.Alertmanager, hooks.CloudEvents}, func(r *reader, n *yaml.Node, key string, d *inHookDraft) {
			d.Scope = r.hookScope(n, key)
		}},
		{"secretEnv", nil, func(r *reader, n *yaml.Node, key string, d *inHookDraft) { d.Secrets = r.secretsFromEnv(n, key) }},
		{"bearerEnv", borne, func(r *reader, n *yaml.Node, key string, d *inHookDraft) { d.Bearer = r.secretsFromEnv(n, key) }},
		{"basic", borne, func(r *reader, n *yaml.Node, key string, d *inHookDraft) { r.readBasic(n, key, d) }},
		{"signature", borne, func(r *reader, n *yaml.Node, key string, d *inHookDraft) { d.Signature = r.readSignature(n, key) }},
		{"toleranceMs", []hooks.Type{hooks.Alertmanager, hooks.CloudEvents, hooks.Generic, hooks.StandardWebhooks}, func(r *reader, n *yaml.Node, key string, d *inHookDraft) {
			d.Tolerance = time.Duration(r.between(n, key, 1, maxToleranceMs)) * time.Millisecond
		}},
		{"event", mapped, func(r *reader, n *yaml.Node, key string, d *inHookDraft) { d.Event = r.readMapping(n, key) }},
	}
}

// readHooks reads the list.
func (r *reader) readHooks(n *yaml.Node) []InHook {
	return readNamed(r, n, keyHooks, exampleHooks, maxHooks, func(item *yaml.Node, at string) (InHook, string) {
		d := r.readInHook(item, at)
		return d.InHook, d.Name
	})
}

// readInHook reads one entry.
func (r *reader) readInHook(n *yaml.Node, at string) *inHookDraft {
	d := &inHookDraft{at: at, where: make(map[string]spot), InHook: InHook{Place: r.place(n)}}
	options := inHookOptions()
	names := make([]string, len(options))
	for i := range options {
		names[i] = options[i].name
	}
	for _, f := range r.fields(n, at, "an object, as {name: github, type: github, secretEnv: GITHUB_WEBHOOK_SECRET}") {
		key := join(at, label(f.name))
		i := slices.Index(names, f.name)
		if i < 0 {
			r.fail(f.key, key, "unknown key%s", secretOr(f.name, names))
			continue
		}
		if isNull(f.value) {
			continue
		}
		d.where[f.name] = spot{r.place(f.value), key}
		options[i].read(r, f.value, key, d)
	}
	if n.Kind == yaml.MappingNode {
		r.checkInHook(n, d, options)
	}
	return d
}

// secretOr suggests the key that names a variable for one that would hold the
// secret itself.
func secretOr(written string, names []string) string {
	for _, near := range []struct{ written, instead string }{
		{"secret", "secretEnv"}, {"token", "bearerEnv"}, {"bearer", "bearerEnv"}, {"password", "passwordEnv"},
	} {
		if strings.EqualFold(written, near.written) && slices.Contains(names, near.instead) {
			return fmt.Sprintf("; did you mean %s? A variable is named, so that no secret stands in the file", near.instead)
		}
	}
	return didYouMean(written, names)
}

// checkInHook looks at what no single option shows.
func (r *reader) checkInHook(n *yaml.Node, d *inHookDraft, options []inHookOption) {
	has := func(option string) bool { _, ok := d.where[option]; return ok }
	if !has("name") {
		r.fail(n, d.at, "has no name: it is the end of the hook's path")
	}
	if d.Type == "" {
		if !has("type") {
			r.fail(n, d.at, "has no type: want one of %s", strings.Join(hookTypes(), ", "))
		}
		return
	}
	for _, o := range options {
		if has(o.name) && o.types != nil && !slices.Contains(o.types, d.Type) {
			at := d.where[o.name]
			r.mistakes = append(r.mistakes, Mistake{at.place, at.key, fmt.Sprintf("is no option of a %s hook, but of %s", d.Type, typesOf(o.types))})
		}
	}
	if d.Type == hooks.Generic && (d.Event.Scope == "" || d.Event.Name == "") {
		r.fail(n, d.at, `a generic hook needs event.scope and event.name: expressions over body, headers and query, as {scope: '"shop:" + body.shop', name: 'body.type'}`)
	}
	r.checkKnown(n, d, has)
}

// checkKnown sees to it that the hook knows its sender in one way.
func (r *reader) checkKnown(n *yaml.Node, d *inHookDraft, has func(string) bool) {
	var ways []string
	for _, way := range []string{"secretEnv", "bearerEnv", "basic"} {
		if has(way) {
			ways = append(ways, way)
		}
	}
	signs := d.Type == hooks.GitHub || d.Type == hooks.StandardWebhooks
	switch {
	case len(ways) == 0 && signs:
		r.fail(n, d.at, "has no secretEnv: without it anybody could send events; it names the variable that holds the secret of the webhook")
	case len(ways) == 0:
		r.fail(n, d.at, "has no way to know its sender, so that anybody could send events: give bearerEnv, basic, or secretEnv and signature")
	case len(ways) > 1:
		r.fail(n, d.at, "has %s: give one of them", strings.Join(ways, " and "))
	case has("secretEnv") && !signs && !has("signature"):
		r.fail(n, d.at, "has secretEnv without signature, which says how the secret signs; bearerEnv is for a token that is sent as it is")
	case has("signature") && !has("secretEnv"):
		r.fail(n, d.at, "has signature without secretEnv, which names the variable that holds the secret")
	}
	if at, given := d.where["toleranceMs"]; given && d.Type != hooks.StandardWebhooks && d.Type != hooks.GitHub && d.Signature.TimestampHeader == "" {
		r.mistakes = append(r.mistakes, Mistake{at.place, at.key, "is how far a signed time may be from now, and this hook has none: signature.timestampHeader says where it is"})
	}
	if d.Type != hooks.StandardWebhooks {
		return
	}
	for _, secret := range d.Secrets {
		if _, err := hooks.ParseSecret(secret.Reveal()); err != nil {
			at := d.where["secretEnv"]
			r.mistakes = append(r.mistakes, Mistake{at.place, at.key, fmt.Sprintf("a secret %v", err)})
		}
	}
}

// hookTypes names the types.
func hookTypes() []string {
	var names []string
	for _, t := range hooks.Types() {
		names = append(names, string(t))
	}
	return names
}

func typesOf(types []hooks.Type) string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = string(t)
	}
	return strings.Join(names, ", ")
}

func (r *reader) hookType(n *yaml.Node, key string) hooks.Type {
	if n.Kind != yaml.ScalarNode || !slices.Contains(hookTypes(), n.Value) {
		r.fail(n, key, "is %s: unknown type%s", describe(n), orList(n.Value, hookTypes()))
		return ""
	}
	return hooks.Type(n.Value)
}

func (r *reader) hookScope(n *yaml.Node, key string) string {
	if n.Kind == yaml.MappingNode {
		r.fail(n, key, `is an object: a template stands in quotes, as "{source}"`)
		return ""
	}
	text, ok := r.name(n, key, maxScopeBytes)
	if !ok {
		return ""
	}
	if _, err := hooks.ParseTemplate(text); err != nil {
		r.fail(n, key, "%v", err)
	}
	return text
}

// shortSecret is how few bytes of a secret could be guessed.
const shortSecret = 16

// checkHooks refuses a secret that is a token as well: what a hook's sender knows
// would open the whole daemon. It warns of secrets that could be guessed or are
// known to two senders, and of ids that anybody could change.
func (l *loader) checkHooks() {
	tokens := make(map[access.Sum]string)
	if l.c.Token != "" {
		tokens[access.SumOf(l.c.Token.Reveal())] = DefaultToken
	}
	for i := range l.c.Tokens {
		tokens[l.c.Tokens[i].Sum] = l.c.Tokens[i].Name
	}
	known := make(map[Secret]string) // to the senders of which hook
	for i := range l.c.Hooks {
		h := &l.c.Hooks[i]
		secrets := slices.Concat(h.Secrets, h.Bearer, h.Passwords)
		shared, short := "", false
		for _, s := range secrets {
			if name, is := tokens[access.SumOf(s.Reveal())]; is {
				l.mistakes = append(l.mistakes, Mistake{h.Place, keyHooks, fmt.Sprintf("the secret of hook %s is the token of %s: give the hook one of its own, which opens nothing else", h.Name, quote(name))})
			}
			shared, short = cmp.Or(shared, known[s]), short || len(s) < shortSecret
		}
		for _, s := range secrets {
			known[s] = cmp.Or(known[s], h.Name)
		}
		if short {
			l.warn(h.Place, WarnShortToken, "hook %s: its secret has less than %d bytes and could be guessed: openssl rand -hex 32 makes a good one", h.Name, shortSecret)
		}
		if shared != "" {
			l.warn(h.Place, WarnSharedSecret, "hook %s: its secret is that of hook %s, so that the sender of one may send as the other: give each its own", h.Name, shared)
		}
		if h.Signature.IDHeader != "" && !strings.Contains(h.Signature.Signed, "{id}") {
			l.warn(h.Place, WarnUnsignedID, "hook %s: signature.idHeader is not in what is signed, so that whoever has seen a delivery could send it again under another id", h.Name)
		}
	}
}

// HookReport is a hook: where it is, and where its events go.
type HookReport struct {
	Place Place      `json:"place"`
	Name  string     `json:"name"`
	Type  hooks.Type `json:"type"`
	Path  string     `json:"path"`
	Scope string     `json:"scope"` // the template or expression
}

func reportHook(h *InHook) HookReport {
	scope := h.Scope
	for _, other := range []string{h.Event.Scope, hooks.DefaultScope(h.Type), string(h.Type) + ":" + h.Name} {
		if scope == "" {
			scope = other
		}
	}
	return HookReport{Place: h.Place, Name: h.Name, Type: h.Type, Path: hooks.Path + h.Name, Scope: scope}
}
