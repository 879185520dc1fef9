package expr_test

import (
	"testing"

	"attend/internal/expr"
)

func request() *expr.Vars {
	return expr.OfHook(
		[]byte(`{"issue": {"id": 12345678901, "title": "it broke", "at": "2026-01-02T03:04:05+01:00"}, "list": [1, {"b": 2, "a": 1.5}]}`),
		map[string][]string{"X-Event": {"issues"}, "Accept": {"a", "b"}},
		map[string][]string{"repo": {"api", "web"}},
	)
}

func TestHook_Strings(t *testing.T) {
	for source, want := range map[string]string{
		`"repo:" + query.repo`:            "repo:api",
		`headers["x-event"] + ".opened"`:  "issues.opened",
		`headers.accept`:                  "a, b",
		`body.issue.id`:                   "12345678901",
		`body.issue.title`:                "it broke",
		`body.?issue.?none.orValue(null)`: "",
		`body.list[1].a`:                  "1.5",
	} { //arch:sorted each is a case of its own
		p := compileTo(t, expr.String, source)
		if got, err := p.String(request()); got != want || err != nil {
			t.Errorf("%s = %q, %v, want %q", source, got, err, want)
		}
	}
	if _, err := compileTo(t, expr.String, `body.issue`).String(request()); err == nil || err.Error() != "is a map, and must be a string" {
		t.Errorf("an object as a string: %v", err)
	}
}

func TestHook_Times(t *testing.T) {
	for source, want := range map[string]int64{
		`body.issue.at`:                     1767319445000,
		`timestamp("2026-01-02T02:04:05Z")`: 1767319445000,
		`1767319445000`:                     1767319445000,
	} { //arch:sorted each is a case of its own
		at, ok, err := compileTo(t, expr.Time, source).Time(request())
		if int64(at) != want || !ok || err != nil {
			t.Errorf("%s = %d, %v, %v, want %d", source, at, ok, err, want)
		}
	}
	if _, ok, err := compileTo(t, expr.Time, `null`).Time(request()); ok || err != nil {
		t.Errorf("null: %v, %v, want no time", ok, err)
	}
	if _, _, err := compileTo(t, expr.Time, `body.issue.title`).Time(request()); err == nil {
		t.Error("a title is no time, and was taken for one")
	}
}

func TestHook_JSON(t *testing.T) {
	for source, want := range map[string]string{
		`body.list`:          `[1,{"a":1.5,"b":2}]`,
		`body.issue.id`:      `12345678901`,
		`headers`:            `{"accept":"a, b","x-event":"issues"}`,
		`body.list.size()`:   `2`,
		`[query.repo, null]`: `["api",null]`,
		`"<@U1> & co"`:       `"<@U1> & co"`,
	} { //arch:sorted each is a case of its own
		got, err := compileTo(t, expr.JSON, source).JSON(request())
		if string(got) != want || err != nil {
			t.Errorf("%s = %s, %v, want %s", source, got, err, want)
		}
	}
	broken := expr.OfHook([]byte(`{"a":`), nil, nil)
	if _, err := compileTo(t, expr.JSON, `body.a`).JSON(broken); err == nil {
		t.Error("a body that is not JSON was read")
	}
}

func compileTo(t *testing.T, want expr.Result, source string) *expr.Program {
	t.Helper()
	env, err := expr.New(expr.Hook)
	if err != nil {
		t.Fatal(err)
	}
	p, err := env.CompileTo(want, source)
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	return p
}
