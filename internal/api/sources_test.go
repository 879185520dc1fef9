package api_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/access"
	"attend/internal/api"
)

func TestSources_AreShownToWhoMayReadTheirEvents(t *testing.T) {
	w := newWorld(t)
	list := func() (names []string) {
		var answer struct{ Sources []struct{ Name string } }
		w.get("/v1/sources").want(http.StatusOK, &answer)
		if answer.Sources == nil {
			t.Error("the list is null")
		}
		for _, s := range answer.Sources {
			names = append(names, s.Name)
		}
		return names
	}
	if got := list(); len(got) != 0 {
		t.Errorf("none is configured, and there are %v", got)
	}
	named := func(name string) any { return map[string]string{"name": name} }
	w.sources = []api.SourceView{{Scope: "repo:a", View: named("a")}, {Scope: "repo:b", View: named("b")}, {View: named("any")}}
	if diff := cmp.Diff([]string{"a", "b", "any"}, list()); diff != "" {
		t.Errorf("who may read all (-want +got):\n%s", diff)
	}
	w.who = access.NewPrincipal(access.Grant{Name: "agent", Rights: []string{access.Read}, Scopes: []string{"repo:b"}})
	if diff := cmp.Diff([]string{"b"}, list()); diff != "" {
		t.Errorf("who may read one scope (-want +got):\n%s", diff)
	}
	w.who = access.NewPrincipal(access.Grant{Name: "all", Rights: []string{access.Read}, Scopes: []string{"*"}})
	if diff := cmp.Diff([]string{"a", "b", "any"}, list()); diff != "" {
		t.Errorf("whose pattern is every scope (-want +got):\n%s", diff)
	}
	w.get("/v1/sources?limit=1").problem(http.StatusBadRequest, "invalidParameter")
}
