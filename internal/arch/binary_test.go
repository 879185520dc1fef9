package arch

import (
	"slices"
	"strings"
	"testing"
)

// unlinked are packages that must not be linked into the daemon, with the
// reason. A path stands for everything below it.
var unlinked = []struct{ path, why string }{
	{modulePath + "/internal/store/storetest", "a suite for tests"},
	{modulePath + "/internal/store/postgres/pgtest", "a server for tests"},
	{modulePath + "/internal/judge/judgetest", "a suite for tests"},
	{modulePath + "/internal/sim", "a world for tests"},
	{modulePath + "/internal/arch", "rules for tests"},
	{"testing", "it adds flags and test code to a daemon"},
	{"pgregory.net/rapid", "for tests"},
	{"go.uber.org/goleak", "for tests"},
	{"github.com/google/go-cmp", "for tests: it panics where it does not understand"},
	{"github.com/rogpeppe/go-internal", "for tests"},
	{"github.com/getkin/kin-openapi", "for tests: the document is held against the handlers by one"},
	{"plugin", "no code is loaded while running"},
	{"runtime/cgo", "the binary is static and pure Go"},
}

func linkFindings(deps []string) []string {
	var found []string
	for _, u := range unlinked {
		if i := slices.IndexFunc(deps, func(dep string) bool { return within(dep, u.path) }); i >= 0 {
			found = append(found, deps[i]+" is linked into the daemon: "+u.why)
		}
	}
	return found
}

func TestBinary_LinksNoTestKit(t *testing.T) {
	pkgs := goList(t, "-deps", "./cmd/attend")
	deps := make([]string, len(pkgs))
	for i, p := range pkgs {
		deps[i] = p.ImportPath
	}
	if !slices.Contains(deps, modulePath+"/internal/engine") {
		t.Fatal("the daemon does not depend on the engine: the rule looked at the wrong thing")
	}
	for _, f := range linkFindings(deps) {
		t.Error(f)
	}
}

func TestBinary_RuleFails(t *testing.T) {
	clean := []string{"fmt", "attend/internal/store", "attend/internal/store/sqlite", "testingx"}
	if got := linkFindings(clean); len(got) != 0 {
		t.Errorf("a clean list gave %q", got)
	}
	for _, u := range unlinked {
		for _, dep := range []string{u.path, u.path + "/below"} {
			got := linkFindings(append(slices.Clone(clean), dep))
			if len(got) != 1 || !strings.Contains(got[0], u.why) {
				t.Errorf("%s linked: got %q, want one finding", dep, got)
			}
		}
	}
}
