package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"

	"attend/internal/access"
)

// DefaultToken is the name of the principal that the one scalar token
// (ATTEND_TOKEN) stands for.
const DefaultToken = "default"

// Token is an entry of tokens: a principal, what it may do, and the sum of the
// token that it is known by. The token itself is not kept.
type Token struct {
	Place Place
	access.Token
	plain bool // the file holds the token itself
}

// keyTokens is the list of them in attend.yaml.
const keyTokens = "tokens"

const (
	maxTokens      = 1000
	maxTokenBytes  = 4096
	maxPrincipal   = 128 // bytes of a name
	maxGrantGlobs  = 100 // patterns of one list
	exampleTokens  = `a list, as [{name: deploy, hash: "sha256:…", rights: [ingest]}]`
	exampleExpires = "2027-01-31T00:00:00Z"
)

// tokenKeys are those of an entry.
func tokenKeys() []string {
	return []string{"name", "token", "hash", "rights", "scopes", "fields", "agents", "expires"}
}

// readTokens reads the list. Nothing of it is quoted that may be a token, a
// misplaced one included.
func (r *reader) readTokens(n *yaml.Node) []Token {
	if n == nil || isNull(n) {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		r.fail(n, keyTokens, "must be %s", exampleTokens)
		return nil
	}
	if len(n.Content) > maxTokens {
		r.fail(n, keyTokens, "has %d entries: may have at most %d", len(n.Content), maxTokens)
		return nil
	}
	var tokens []Token
	for i, item := range r.items(n, keyTokens, exampleTokens) {
		at := fmt.Sprintf("%s[%d]", keyTokens, i)
		if item.Kind != yaml.MappingNode {
			r.fail(item, at, "must be an object with name, token or hash, and rights")
			continue
		}
		if t, ok := r.readToken(item, at); ok {
			tokens = append(tokens, t)
		}
	}
	return tokens
}

// readToken reads one entry; ok when nothing is wrong with it.
func (r *reader) readToken(item *yaml.Node, at string) (t Token, ok bool) {
	before := len(r.mistakes)
	t.Place = r.place(item)
	given := make(map[string]bool)
	for _, f := range r.fields(item, at, "an object") {
		if !slices.Contains(tokenKeys(), f.name) {
			r.fail(f.key, at, "holds an unknown key%s", orList(f.name, tokenKeys()))
			continue
		}
		if isNull(f.value) {
			continue // "scopes:" with nothing behind it: not set
		}
		given[f.name] = true
		r.readTokenKey(f, join(at, f.name), &t)
	}
	switch {
	case given["token"] && given["hash"]:
		r.fail(item, at, "has both token and hash: give one of them, better the hash")
	case !given["token"] && !given["hash"]:
		r.fail(item, at, "has neither token nor hash: attend token new draws one and prints both")
	}
	if !given["name"] {
		r.fail(item, at, "has no name: it says whom the token stands for")
	}
	if !given["rights"] {
		r.fail(item, at, "has no rights: want some of %s", strings.Join(access.Rights(), ", "))
	}
	return t, len(r.mistakes) == before
}

func (r *reader) readTokenKey(f field, key string, t *Token) {
	switch f.name {
	case "name":
		t.Name = r.principal(f.value, key)
		t.Place = r.place(f.value)
	case "token":
		t.plain = true
		t.Sum = r.plainToken(f.value, key)
	case "hash":
		text, ok := r.secretText(f.value, key)
		if !ok {
			return
		}
		var err error
		if t.Sum, err = access.ParseSum(text); err != nil {
			r.fail(f.value, key, "%v", err)
		}
	case "rights":
		t.Rights = r.rights(f.value, key)
	case "scopes":
		t.Scopes = r.globs(f.value, key)
	case "fields":
		t.Fields = r.globs(f.value, key)
	case "agents":
		t.Agents = r.globs(f.value, key)
	case "expires":
		t.Expires = r.instant(f.value, key)
	}
}

// principal reads a name: it stands in logs, and beside consumers.
func (r *reader) principal(n *yaml.Node, key string) string {
	name, ok := r.text(n, key, maxPrincipal)
	if ok && strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) }) {
		r.fail(n, key, "is %s: must be printable", quote(name))
	}
	return name
}

// secretText reads text, and quotes none of it.
func (r *reader) secretText(n *yaml.Node, key string) (string, bool) {
	if n.Kind != yaml.ScalarNode {
		r.fail(n, key, "must be text")
		return "", false
	}
	return r.text(n, key, maxTokenBytes)
}

func (r *reader) plainToken(n *yaml.Node, key string) access.Sum {
	text, ok := r.secretText(n, key)
	if !ok {
		return access.Sum{}
	}
	if err := checkToken(text); err != nil {
		r.fail(n, key, "%v", err)
	} else if len(text) < access.MinToken {
		r.fail(n, key, "has %d bytes: must have at least %d, or it is guessed; attend token new draws one", len(text), access.MinToken)
	}
	return access.SumOf(text)
}

func (r *reader) rights(n *yaml.Node, key string) []string {
	var rights []string
	for i, item := range r.oneOrMore(n, key) {
		at := fmt.Sprintf("%s[%d]", key, i)
		right, ok := r.text(item, at, maxTextBytes)
		switch {
		case !ok:
		case !slices.Contains(access.Rights(), right):
			r.fail(item, at, "is %s: unknown right%s", quote(right), orList(right, access.Rights()))
		case slices.Contains(rights, right):
			r.fail(item, at, "%s is given twice", right)
		default:
			rights = append(rights, right)
		}
	}
	slices.Sort(rights) // in whichever order it stands, it is the same grant
	return rights
}

func (r *reader) globs(n *yaml.Node, key string) []string {
	items := r.oneOrMore(n, key)
	if len(items) > maxGrantGlobs {
		r.fail(n, key, "has %d patterns: may have at most %d", len(items), maxGrantGlobs)
	}
	globs := make([]string, 0, len(items))
	for i, item := range items {
		if glob, ok := r.name(item, fmt.Sprintf("%s[%d]", key, i), maxPatternBytes); ok {
			globs = append(globs, glob)
		}
	}
	slices.Sort(globs) // in whichever order they stand, it is the same grant
	return slices.Compact(globs)
}

// oneOrMore reads one value or a list of them. An empty list is refused: it
// could mean none as well as all.
func (r *reader) oneOrMore(n *yaml.Node, key string) []*yaml.Node {
	if n.Kind == yaml.ScalarNode {
		return []*yaml.Node{n}
	}
	items := r.items(n, key, "one value or a list")
	if n.Kind == yaml.SequenceNode && len(items) == 0 {
		r.fail(n, key, "is an empty list: name at least one")
	}
	return items
}

func (r *reader) instant(n *yaml.Node, key string) time.Time {
	text, ok := r.text(n, key, maxTextBytes)
	if !ok {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		r.fail(n, key, "is %s: must be an instant as RFC 3339 writes it, as %s", quote(text), exampleExpires)
	}
	return at
}

// checkTokens refuses two entries that cannot be told apart, and warns of tokens
// that have expired, and of an ATTEND_TOKEN that could be guessed.
func (l *loader) checkTokens() {
	names, sums := make(map[string]Place), make(map[access.Sum]Place)
	if l.c.Token != "" {
		v := l.value("token")
		names[DefaultToken], sums[access.SumOf(l.c.Token.Reveal())] = v.place, v.place
		if len(l.c.Token) < access.MinToken {
			l.c.Warnings = append(l.c.Warnings, Warning{
				v.place, WarnShortToken,
				fmt.Sprintf("the token has less than %d bytes and could be guessed: attend token new draws one", access.MinToken),
			})
		}
	}
	for i := range l.c.Tokens {
		t := &l.c.Tokens[i]
		if first, again := names[t.Name]; again {
			l.mistakes = append(l.mistakes, Mistake{t.Place, keyTokens, fmt.Sprintf("the name %s is given twice, first at %s", quote(t.Name), first)})
		}
		if first, again := sums[t.Sum]; again {
			l.mistakes = append(l.mistakes, Mistake{t.Place, keyTokens, fmt.Sprintf("the token of %s is given twice, first at %s", quote(t.Name), first)})
		}
		names[t.Name], sums[t.Sum] = t.Place, t.Place
		if !t.Expires.IsZero() && !time.Now().Before(t.Expires) {
			l.c.Warnings = append(l.c.Warnings, Warning{
				t.Place, WarnExpired,
				fmt.Sprintf("the token of %s has expired (%s): nobody gets in with it", quote(t.Name), t.Expires.Format(time.RFC3339)),
			})
		}
	}
}
