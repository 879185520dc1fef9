package field_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"attend/internal/field"
)

// What read gives is what a plain filter of all entries gives, whole and in
// pages.
func TestLaw_ReadIsThePlainFilter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := liveOn(t, gradedMode, 60)
		caller := rapid.SampledFrom(names).Draw(t, "caller")
		query := drawQuery(t)
		var want []string
		for _, e := range everything(t, l.state, caller) {
			var payload map[string]any
			if err := json.Unmarshal(e.Entry, &payload); err != nil {
				t.Fatal(err)
			}
			if plainMatch(payload, query) {
				want = append(want, e.ID)
			}
		}
		for _, limit := range []int{10000, rapid.IntRange(1, 5).Draw(t, "limit")} {
			if diff := cmp.Diff(want, readAll(t, l.state, map[string]any{"query": query, "caller": caller, "limit": limit})); diff != "" {
				t.Fatalf("%s by %d (-plain +got):\n%s", encoded(query), limit, diff)
			}
		}
	})
}

// readAll reads page after page.
func readAll(t *rapid.T, s *field.State, params map[string]any) (ids []string) {
	for more := true; more; {
		q, err := field.ParseQuery(field.OpRead, json.RawMessage(encoded(params)), gradedMode)
		if err != nil {
			t.Fatal(err)
		}
		page, err := s.Read(q)
		if err != nil || page.More && len(page.Entries) != q.Limit {
			t.Fatalf("%d entries of %d, more is %t, %v", len(page.Entries), q.Limit, page.More, err)
		}
		for i := range page.Entries {
			ids = append(ids, page.Entries[i].ID)
			params["after"] = page.Entries[i].ID
		}
		more = page.More
	}
	return ids
}

func drawQuery(t *rapid.T) map[string]any {
	values := []any{nil, 1.0, 2.0, "1", "reef", true, []any{1.0}, map[string]any{}, map[string]any{"x": 1.0}, map[string]any{"x": 2.0}}
	query := make(map[string]any)
	for range rapid.IntRange(0, 2).Draw(t, "keys") {
		query[rapid.SampledFrom([]string{"topic", "a", "b", "none"}).Draw(t, "key")] = rapid.SampledFrom(values).Draw(t, "value")
	}
	return query
}

func plainMatch(payload, query map[string]any) bool {
	for key, want := range query {
		got, ok := payload[key]
		inner, nested := want.(map[string]any)
		switch object, isObject := got.(map[string]any); {
		case !ok:
			return false
		case nested:
			if !isObject {
				return false
			}
			for k, v := range inner {
				if w, ok := object[k]; !ok || !is(w, v) {
					return false
				}
			}
		case !is(got, want):
			return false
		}
	}
	return true
}
