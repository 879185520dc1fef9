package fields_test

import (
	"testing"

	"attend/internal/field"
	"attend/internal/store/memory"
)

func TestService_DraftAgent(t *testing.T) {
	s := open(t, memory.New(memory.Options{}))
	defer s.Close()
	named := do[field.Drafted](t, s, "", field.OpDraft, note("gull", "tide")).DraftID
	nobodys := do[field.Drafted](t, s, "", field.OpDraft, params("entry", params(), "intent", "so that the others know")).DraftID
	gone := do[field.Drafted](t, s, "", field.OpDraft, note("gull", "tide")).DraftID
	do[field.Written](t, s, "", field.OpCommit, params("draft_id", gone))
	for _, c := range []struct {
		name, id, agent string
		ok              bool
	}{
		{"", named, "gull", true},
		{"default", named, "gull", true},
		{"", nobodys, "", true},
		{"", gone, "", false},
		{"", "none", "", false},
		{"another", named, "", false},
	} {
		if agent, ok, err := s.DraftAgent(t.Context(), c.name, c.id); err != nil || agent != c.agent || ok != c.ok {
			t.Errorf("%q %s: got %q, %t, %v; want %q, %t", c.name, c.id, agent, ok, err, c.agent, c.ok)
		}
	}
}
