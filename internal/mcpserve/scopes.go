package mcpserve

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"attend/internal/engine"
	"attend/internal/feed"
)

// How many scopes one call shows, and how many it looks at for that.
const (
	defaultScopes = 20
	scopesAtOnce  = 100
	maxLookedAt   = 2000
)

// Scopes shows what each scope holds now.
type Scopes interface {
	// Scope returns the view of one scope; one that was never heard of holds
	// nothing.
	Scope(ctx context.Context, scope string) (ScopeView, error)
	// Scopes returns at most limit views, ordered by name, after the name given.
	Scopes(ctx context.Context, after string, limit int) ([]ScopeView, error)
}

// ScopeView is S of the HTTP API, ready to be encoded.
type ScopeView struct {
	Scope string
	View  any
}

// scopesResult is the structured content of attend_scopes.
type scopesResult struct {
	Scopes []any   `json:"scopes"`
	Cursor *string `json:"cursor"`
}

func (s *Server) scopesTool() *tool {
	return &tool{
		name:  "attend_scopes",
		title: "See what is going on in each scope",
		description: "Shows what each scope is gathering now, and when it will be judged: open (events that wait for the act in them to be finished), " +
			"judging (being judged at this moment), held (put off, since more was expected). It changes nothing and does not wait. " +
			"Use it to see whether something is under way before you start, or to find your bearings when attend_wait says truncated.",
		annotations: mcp.ToolAnnotations{ReadOnlyHint: true, DestructiveHint: new(bool), IdempotentHint: true, OpenWorldHint: new(bool)},
		right:       RightRead,
		call:        s.callScopes,
	}
}

func (s *Server) callScopes(ctx context.Context, caller *Caller, members map[string]json.RawMessage) (*answered, error) {
	var globs patterns
	var cursor string
	limit := defaultScopes
	for _, bad := range []*fault{
		member(members, "scope", &globs),
		member(members, "cursor", &cursor),
		member(members, "limit", &limit),
	} {
		if bad != nil {
			return nil, bad
		}
	}
	if scope, found := hidden(globs, caller); found {
		return nil, notYours(scope, "read")
	}
	q := &scopeQuery{globs: globs, may: caller.visible(), limit: limit}
	if cursor != "" {
		var err error
		if q.after, err = feed.DecodeScopeCursor(cursor); err != nil {
			return nil, &fault{"/cursor", cursorReason(err)}
		}
	}
	views, more, err := q.find(ctx, s.opts.Scopes)
	if err != nil {
		return nil, err
	}
	return scopesAnswer(views, more)
}

// scopesAnswer makes the answer; more is the name behind which there is more.
func scopesAnswer(views []ScopeView, more string) (*answered, error) {
	result := scopesResult{Scopes: make([]any, len(views))}
	if more != "" {
		next := feed.EncodeScopeCursor(more)
		result.Cursor = &next
	}
	shown := make([]scopeShown, len(views))
	for i := range views {
		raw, err := json.Marshal(views[i].View)
		if err == nil {
			err = json.Unmarshal(raw, &shown[i])
		}
		if err != nil {
			return nil, fmt.Errorf("show scope %q: %w", views[i].Scope, err)
		}
		result.Scopes[i] = json.RawMessage(raw)
	}
	return &answered{structured: &result, text: scopesText(shown, result.Cursor)}, nil
}

// scopeQuery looks for scopes by their names.
type scopeQuery struct {
	globs []string // none for all
	may   func(scope string) bool
	limit int
	after string // the names up to here are passed over
}

// find returns the scopes, and the name to go on after: "" when there are no
// more. It looks at so many and then leaves the rest to the next call. The name
// is one that the caller may see: a cursor can be read.
func (q *scopeQuery) find(ctx context.Context, from Scopes) (found []ScopeView, more string, err error) {
	if one, ok := q.exact(); ok {
		if q.after >= one {
			return nil, "", nil
		}
		view, err := from.Scope(ctx, one)
		return []ScopeView{view}, "", err
	}
	prefix := q.prefix()
	after := max(q.after, before(prefix))
	seen := ""
	for looked := 0; looked < maxLookedAt || seen == ""; looked += scopesAtOnce {
		views, err := from.Scopes(ctx, after, scopesAtOnce)
		if err != nil {
			return nil, "", err
		}
		for i := range views {
			name := views[i].Scope
			if name > prefix && !strings.HasPrefix(name, prefix) {
				return found, "", nil
			}
			after = name
			if q.may != nil && !q.may(name) {
				continue
			}
			if q.match(name) {
				if len(found) == q.limit {
					return found, seen, nil
				}
				found = append(found, views[i])
			}
			seen = name
		}
		if len(views) < scopesAtOnce {
			return found, "", nil
		}
	}
	return found, seen, nil
}

func (q *scopeQuery) match(scope string) bool {
	return len(q.globs) == 0 || slices.ContainsFunc(q.globs, func(glob string) bool { return engine.Glob(glob, scope) })
}

// exact is the one scope that is asked for, if it is one.
func (q *scopeQuery) exact() (scope string, ok bool) {
	if len(q.globs) == 1 && !strings.ContainsAny(q.globs[0], `*?\`) {
		return q.globs[0], true
	}
	return "", false
}

// prefix is what the names of all scopes that are asked for begin with.
func (q *scopeQuery) prefix() string {
	if len(q.globs) != 1 {
		return ""
	}
	literal, _, _ := strings.Cut(q.globs[0], "*")
	return literal[:strings.IndexAny(literal+"?", `?\`)]
}

// before is a name that stands before all names with a prefix, and not far.
func before(prefix string) string {
	_, size := utf8.DecodeLastRuneInString(prefix)
	return prefix[:len(prefix)-size]
}

// scopeShown is S, as far as it is told in words.
type scopeShown struct {
	Scope string     `json:"scope"`
	Open  *openShown `json:"open"`
	Held  *struct {
		ID    string      `json:"id"`
		Until engine.Time `json:"until"`
		Waits int         `json:"waits"`
	} `json:"held"`
	Judging *struct {
		ID      string       `json:"id"`
		Attempt int          `json:"attempt"`
		RetryAt *engine.Time `json:"retryAt"`
	} `json:"judging"`
}

type openShown struct {
	Events    int             `json:"events"`
	Acts      int             `json:"acts"`
	Since     engine.Time     `json:"since"`
	Deadlines []deadlineShown `json:"deadlines"`
}

type deadlineShown struct {
	Reason engine.Reason `json:"reason"`
	At     engine.Time   `json:"at"`
}
