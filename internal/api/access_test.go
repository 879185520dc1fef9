package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"attend/internal/access"
	"attend/internal/engine"
	"attend/internal/feed"
)

// ann may do everything, in the scopes of her own alone.
func ann() *access.Principal {
	return access.NewPrincipal(access.Grant{Name: "ann", Rights: access.Rights(), Scopes: []string{"mine:*"}})
}

// What is hidden is in no list and no stream, and no answer tells it from what
// was never there.
func TestAccess_HidesOtherScopes(t *testing.T) {
	w := newWorld(t)
	w.whole("mine:1", "w1", engine.Queue)
	w.whole("theirs:1", "w2", engine.Queue)
	theirs := w.letter("theirs:1", "w3", nil, 1)
	mine := w.letter("mine:1", "w4", nil, 1)
	w.scopes.names = []string{"mine:1", "theirs:1"}
	w.who = ann()

	if got := w.page("").ids(); got != "w1" {
		t.Errorf("decisions: %q", got)
	}
	if got := w.page("?scope=*:1&kinds=decision,deadLetter").ids(); got != "w1 "+mine {
		t.Errorf("of all kinds: %q", got)
	}
	if a := w.get("/v1/deadletters"); !strings.Contains(a.body, mine) || strings.Contains(a.body, theirs) {
		t.Errorf("dead letters: %s", a.body)
	}
	if a := w.get("/v1/scopes"); a.body != `{"scopes":[{"scope":"mine:1"}],"cursor":null}`+"\n" {
		t.Errorf("scopes: %s", a.body)
	}
	same := func(method, hidden, none string) {
		t.Helper()
		one, other := w.do(method, hidden, ""), w.do(method, none, "")
		named := func(path, body string) string { return strings.ReplaceAll(body, strings.Split(path, "/")[3], "ID") }
		if one.status != http.StatusNotFound || other.status != one.status || named(hidden, one.body) != named(none, other.body) {
			t.Errorf("%s %s: %d %s; of what there is not: %d %s", method, hidden, one.status, one.body, other.status, other.body)
		}
	}
	same(http.MethodGet, "/v1/decisions/w2", "/v1/decisions/w9")
	same(http.MethodGet, "/v1/deadletters/"+theirs, "/v1/deadletters/none")
	same(http.MethodPost, "/v1/deadletters/"+theirs+"/requeue", "/v1/deadletters/none/requeue")
}

// A scope that is asked for by its name is refused, whether or not there is one.
func TestAccess_RefusesAScopeByItsName(t *testing.T) {
	w := newWorld(t)
	w.whole("theirs:1", "w1", engine.Queue)
	w.scopes.names = []string{"theirs:1"}
	w.who = ann()
	for _, scope := range []string{"theirs:1", "theirs:never"} {
		for _, c := range []struct{ method, path, body string }{
			{http.MethodGet, "/v1/decisions?scope=" + scope, ""},
			{http.MethodGet, "/v1/decisions?scope=mine:*&scope=" + scope, ""},
			{http.MethodGet, "/v1/decisions/stream?scope=" + scope, ""},
			{http.MethodGet, "/v1/deadletters?scope=" + scope, ""},
			{http.MethodGet, "/v1/scopes/" + scope, ""},
			{http.MethodPost, "/v1/scopes/" + scope + "/flush", ""},
			{http.MethodPost, "/v1/flush", `{"scope":"` + scope + `"}`},
		} {
			if detail := w.do(c.method, c.path, c.body).problem(http.StatusForbidden, "forbidden"); !strings.Contains(detail, `"`+scope+`" is not yours`) {
				t.Errorf("%s %s: %s", c.method, c.path, detail)
			}
		}
	}
	if w.marks.at != 0 {
		t.Error("a flush was written")
	}
}

// Pages of scopes are as full as they can be, and their cursors hold no name
// that is hidden.
func TestAccess_PagesOfScopes(t *testing.T) {
	w := newWorld(t)
	for i := range 2500 {
		w.scopes.names = append(w.scopes.names, fmt.Sprintf("all:%04d", i))
	}
	w.who = access.NewPrincipal(access.Grant{Name: "ann", Rights: []string{access.Read}, Scopes: []string{"all:*99"}})
	seen, after := 0, ""
	for pages := 1; ; pages++ {
		var page struct {
			Scopes []struct{ Scope string }
			Cursor *string
		}
		w.get("/v1/scopes?limit=10&after="+after).want(http.StatusOK, &page)
		seen += len(page.Scopes)
		if page.Cursor == nil {
			if seen != 25 || pages != 3 {
				t.Errorf("%d scopes on %d pages", seen, pages)
			}
			return
		}
		after = *page.Cursor
		if name, err := feed.DecodeScopeCursor(after); err != nil || !strings.HasSuffix(name, "99") || len(page.Scopes) != 10 {
			t.Fatalf("a page of %d ends at %q (%v)", len(page.Scopes), name, err)
		}
	}
}

func TestAccess_ConsumersBelongToTheirPrincipal(t *testing.T) {
	w := newWorld(t)
	for name, owner := range map[string]string{"hers": "ann", "his": "bob", "old": ""} {
		if _, err := w.consumers.Wait(t.Context(), feed.Call{Consumer: name, Principal: owner}); err != nil {
			t.Fatal(err)
		}
	}
	names := func() string {
		var list struct{ Consumers []feed.Consumer }
		w.get("/v1/consumers").want(http.StatusOK, &list)
		var all []string
		for _, c := range list.Consumers {
			all = append(all, c.Name)
		}
		return strings.Join(all, " ")
	}
	w.who = access.NewPrincipal(access.Grant{Name: "ann", Rights: []string{access.Read}})
	if got := names(); got != "hers old" {
		t.Errorf("ann sees %q", got)
	}
	var hers feed.Consumer
	w.get("/v1/consumers/hers").want(http.StatusOK, &hers)
	if hidden, none := w.get("/v1/consumers/his").problem(404, "notFound"), w.get("/v1/consumers/hiz").problem(404, "notFound"); strings.Replace(hidden, "his", "hiz", 1) != none {
		t.Errorf("%q and %q", hidden, none)
	}
	w.who = ann()
	if got := names(); got != "hers his old" {
		t.Errorf("an administrator sees %q", got)
	}
	if a := w.do(http.MethodDelete, "/v1/consumers/his", ""); a.status != http.StatusNoContent {
		t.Errorf("an administrator: %d", a.status)
	}
}

// Every route asks for its right, and says which.
func TestAccess_RightOfEachRoute(t *testing.T) {
	w := newWorld(t)
	w.who = access.NewPrincipal(access.Grant{Name: "ann", Rights: []string{"another"}})
	for _, c := range []struct{ method, path, right string }{
		{http.MethodGet, "/v1/decisions", access.Read},
		{http.MethodPost, "/v1/flush", access.Ingest},
		{http.MethodPost, "/v1/field/write", access.Ingest},
		{http.MethodPost, "/v1/field/read", access.Read},
		{http.MethodDelete, "/v1/consumers/x", access.Admin},
	} {
		if detail := w.do(c.method, c.path, "").problem(http.StatusForbidden, "forbidden"); !strings.Contains(detail, "the right "+c.right+",") || !strings.Contains(detail, `"ann"`) {
			t.Errorf("%s %s: %s", c.method, c.path, detail)
		}
	}
}

// brief makes a principal whose token expires in a minute.
func brief(t *testing.T) (p *access.Principal) {
	t.Helper()
	tokens := access.NewTokens([]access.Token{{
		Grant: access.Grant{Name: "brief", Rights: access.Rights(), Expires: time.Now().Add(time.Minute)}, Sum: access.SumOf("x"),
	}})
	t.Cleanup(tokens.Stop)
	p, err := tokens.Find("x")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAccess_AWaitEndsWithTheRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.who = brief(t)
		time.Sleep(50 * time.Second) //arch:sleep the bubble's clock
		began := time.Now()
		a := w.get("/v1/decisions?after=now&waitMs=30000")
		if detail := a.problem(http.StatusUnauthorized, "unauthorized"); !strings.Contains(detail, "expired") {
			t.Errorf("detail %q", detail)
		}
		if took := time.Since(began); took != 10*time.Second || !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Bearer ") {
			t.Errorf("it took %v; WWW-Authenticate %q", took, a.header.Get("WWW-Authenticate"))
		}
	})
}

func TestAccess_AStreamEndsWithTheRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.who = brief(t)
		s := w.stream("")
		synctest.Wait()
		w.whole("chat:1", "w1", engine.Queue)
		time.Sleep(time.Minute) //arch:sleep the bubble's clock
		synctest.Wait()
		w.whole("chat:1", "w2", engine.Queue)
		synctest.Wait()
		if got := s.told(); got != "decision w1, end revoked" || !strings.Contains(s.text(), `{"reason":"revoked","cursor":"`) {
			t.Errorf("told %q: %s", got, s.text())
		}
		if n := w.open(); n != 0 {
			t.Errorf("%d streams are open", n)
		}
	})
}

// One principal that waits as often as it may keeps nobody else from waiting.
func TestAccess_WaitsAreBoundedForEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.who = access.NewPrincipal(access.Grant{Name: "ann", Rights: access.Rights()})
		for range 1000 {
			go w.get("/v1/decisions?after=now&waitMs=1000")
		}
		synctest.Wait()
		w.get("/v1/decisions?after=now&waitMs=1").problem(http.StatusTooManyRequests, "tooManyWaits")
		w.who = access.NewPrincipal(access.Grant{Name: "bob", Rights: access.Rights()})
		w.page("?after=now&waitMs=1")
		time.Sleep(time.Second) //arch:sleep the bubble's clock
		synctest.Wait()
	})
}
