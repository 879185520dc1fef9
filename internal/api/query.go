package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"

	"attend/internal/access"
	"attend/internal/engine"
	"attend/internal/feed"
)

// query reads a request's parameters. It keeps the first mistake, so that a
// handler reads everything and asks once.
type query struct {
	values url.Values
	err    error
}

// parseQuery reads the parameters and refuses any that the route does not
// know: a misspelt filter must not answer with everything.
func parseQuery(r *http.Request, known ...string) *query {
	values, err := url.ParseQuery(r.URL.RawQuery)
	q := &query{values: values}
	if err != nil {
		q.fail("the query string cannot be read: %v", err)
		return q
	}
	names := make([]string, 0, len(values))
	for name := range values { //arch:sorted the names are sorted below
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if !slices.Contains(known, name) {
			takes := "none"
			if len(known) > 0 {
				takes = strings.Join(known, ", ")
			}
			q.fail("unknown parameter %q: this route takes %s", name, takes)
		}
	}
	return q
}

func (q *query) fail(format string, args ...any) {
	if q.err == nil {
		q.err = refuse(http.StatusBadRequest, codeParameter, format, args...)
	}
}

// one returns the value of a parameter that may stand once.
func (q *query) one(name string) string {
	values := q.values[name]
	if len(values) > 1 {
		q.fail("%s stands %d times: it may stand once", name, len(values))
	}
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// list returns the values of a parameter that may be repeated or hold several
// values with commas between.
func (q *query) list(name string) []string {
	var all []string
	for _, v := range q.values[name] {
		for part := range strings.SplitSeq(v, ",") {
			if part = strings.TrimSpace(part); part != "" && !slices.Contains(all, part) {
				all = append(all, part)
			}
		}
	}
	return all
}

// number returns a whole number from low to high; def when it does not stand.
func (q *query) number(name string, def, low, high int) int {
	v := q.one(name)
	if v == "" {
		return def
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < low || n > high {
		q.fail("%s is %q: want a whole number from %d to %d", name, v, low, high)
		return def
	}
	return n
}

// limit returns how many items a page may hold.
// flag returns a parameter that stands for yes by being there.
func (q *query) flag(name string) bool {
	switch v := q.one(name); {
	case len(q.values[name]) == 0 || v == "false":
		return false
	case v == "" || v == "true":
		return true
	default:
		q.fail("%s is %q: must be true or false", name, v)
		return false
	}
}

func (q *query) limit() int { return q.number("limit", defaultLimit, 1, maxLimit) }

// maxGlobs bounds how many scope patterns each item is compared with.
const maxGlobs = 100

// filter reads the parameters that select items of the feed, among those that
// the caller may read. To ask for one scope by its name that it may not read is
// an error, since an empty answer would look like one that has nothing yet.
func (q *query) filter(ctx context.Context) feed.Filter {
	f := feed.Filter{Visible: access.From(ctx).Visible()}
	// A scope may hold a comma: patterns are repeated, not listed.
	f.Scopes = slices.DeleteFunc(slices.Clone(q.values["scope"]), func(s string) bool { return s == "" })
	if len(f.Scopes) > maxGlobs {
		q.fail("scope stands %d times: it may stand %d times", len(f.Scopes), maxGlobs)
	}
	for _, name := range q.list("route") {
		route, err := engine.ParseRoute(name)
		if err != nil {
			q.fail("route: %v", err)
		}
		f.Routes = append(f.Routes, route)
	}
	for _, name := range q.list("kinds") {
		kind, err := feed.ParseKind(name)
		if err != nil {
			q.fail("kinds: %v", err)
		}
		f.Kinds = append(f.Kinds, kind)
	}
	if err := f.Check(); err != nil {
		q.fail("%v", err)
	}
	for _, pattern := range f.Scopes {
		if q.err == nil && !strings.ContainsAny(pattern, `*?\`) {
			q.err = hidden(ctx, access.Read, pattern, "read")
		}
	}
	return f
}

// stages reads the stages of dead letters.
func (q *query) stages() []string {
	stages := q.list("stage")
	for _, stage := range stages {
		if err := checkStage(stage); err != nil {
			q.fail("stage: %v", err)
		}
	}
	return stages
}

func checkStage(stage string) error {
	if slices.Contains([]string{engine.StageJudge, engine.StageSink, engine.StageWebhook}, stage) {
		return nil
	}
	return fmt.Errorf("%q is no stage: want judge, sink or webhook", stage)
}

// segment returns the path's third segment, the one that names something,
// percent-decoded once: a name may hold a slash, or what looks like an escape.
func segment(r *http.Request) (string, error) {
	const third = 3 // of "", "v1", "scopes", "chat:42"
	parts := strings.Split(r.URL.EscapedPath(), "/")
	value, err := url.PathUnescape(parts[third])
	if err != nil {
		return "", refuse(http.StatusBadRequest, codeParameter, "the name in the path cannot be read: %v", err)
	}
	return value, nil
}

// maxScopeBytes is the longest a scope's name may be.
const maxScopeBytes = 512

// checkScope refuses what can be no scope's name, by the rule that ingest
// follows.
func checkScope(scope string) error {
	switch {
	case scope == "":
		return refuse(http.StatusBadRequest, codeParameter, "scope is empty: want 1 to %d bytes", maxScopeBytes)
	case len(scope) > maxScopeBytes:
		return refuse(http.StatusBadRequest, codeParameter, "scope has %d bytes: want 1 to %d", len(scope), maxScopeBytes)
	case !utf8.ValidString(scope):
		return refuse(http.StatusBadRequest, codeParameter, "scope is not valid UTF-8")
	case strings.ContainsFunc(scope, isControl):
		return refuse(http.StatusBadRequest, codeParameter, "scope holds a control character: %s", strconv.QuoteToASCII(scope))
	default:
		return nil
	}
}

func isControl(r rune) bool { return r < 0x20 || r >= 0x7F && r < 0xA0 }

// describeRoute names a request's route in logs, without what the caller put
// into the path.
func describeRoute(r *http.Request) string {
	if ctx := chi.RouteContext(r.Context()); ctx != nil {
		if pattern := ctx.RoutePattern(); pattern != "" {
			return fmt.Sprintf("%s %s", r.Method, pattern)
		}
	}
	return r.Method
}
