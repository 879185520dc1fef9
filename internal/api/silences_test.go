package api_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"attend/internal/access"
	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/runner"
	"attend/internal/store"
)

// silence is one, as it is shown.
type silence struct {
	ID, Scope, Who, Why string
	Event               *string
	IncludeFlush        bool
	Since               int64
	Until               *int64
	Active              bool
	EndedBy             *string
	Hid                 struct {
		Windows, Events int
		More            bool
	}
}

// decides runs the loop behind the world, with a judge without IO; an event whose
// name begins with "ask" is a flush, one that begins with "done" settles its
// window at once.
func (w *world) decides() *prometheus.Registry {
	w.t.Helper()
	p := engine.Policy{Kinds: map[string]engine.Kind{"ask*": engine.Flush, "done*": engine.Closing}, Default: engine.Defaults(), Judge: "rule"}
	p.Default.ClosingGraceMs = 0
	slow := engine.Defaults()
	slow.ClosingGraceMs = 5
	p.Scopes = []engine.ScopeSettings{{Scope: "slow", Settings: slow}}
	if err := runner.EnsurePolicy(w.t.Context(), w.store, &p); err != nil {
		w.t.Fatal(err)
	}
	reg := prometheus.NewRegistry()
	r := runner.New(runner.Options{Store: w.store, Compile: judge.Compile, Logger: slog.New(slog.DiscardHandler), Registerer: reg})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	w.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	})
	synctest.Wait()
	return reg
}

// happens appends events, lets them be decided, and returns the routes of the
// scope so far.
func (w *world) happens(scope string, names ...string) (routes string) {
	w.t.Helper()
	var events []store.NewEvent
	for _, name := range names {
		kind := engine.Consequence
		if strings.HasPrefix(name, "ask") {
			kind = engine.Flush
		} else if strings.HasPrefix(name, "done") {
			kind = engine.Closing
		}
		w.ids++
		events = append(events, store.NewEvent{Scope: scope, Event: engine.Event{ID: fmt.Sprint(w.ids), Name: name, Kind: kind, Policy: 1}})
	}
	if len(events) > 0 {
		w.append(store.Entry{Events: events})
	}
	synctest.Wait()
	recs, err := w.store.Steps(w.t.Context(), store.StepQuery{Scope: scope, Kinds: []engine.StepKind{engine.StepDecision}})
	if err != nil {
		w.t.Fatal(err)
	}
	var all []string
	for i := range recs {
		all = append(all, recs[i].Step.Route.String())
	}
	return strings.Join(all, " ")
}

func (w *world) wants(what, want, got string) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// A silence holds from behind the instant at which it is made, and up to the
// instant before its end.
func TestSilences_TheInstants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		reg := w.decides()
		w.who = access.NewPrincipal(access.Grant{Name: "ann", Rights: access.Rights()})
		var s silence
		w.do(http.MethodPost, "/v1/silences", `{"scope":"repo:*","forMs":1000,"why":"the deploy"}`).want(http.StatusCreated, &s)
		w.wants("due at its own instant", "queue", w.happens("repo:a", "done"))
		time.Sleep(time.Millisecond) //arch:sleep the bubble's clock
		w.wants("a millisecond later", "queue skip", w.happens("repo:a", "done", "noise"))
		w.wants("another scope", "queue", w.happens("chat:a", "done"))
		w.wants("a flush gets through", "queue skip interrupt", w.happens("repo:a", "noise", "ask"))
		time.Sleep(998 * time.Millisecond) //arch:sleep the bubble's clock
		w.wants("a millisecond before its end", "queue skip interrupt skip", w.happens("repo:a", "done"))
		if got := gathered(t, reg, "attend_silences_active"); got != 1 {
			t.Errorf("active: %v", got)
		}
		time.Sleep(time.Millisecond) //arch:sleep the bubble's clock
		w.wants("at its end", "queue skip interrupt skip queue", w.happens("repo:a", "done"))
		if got := gathered(t, reg, "attend_silences_active"); got != 0 {
			t.Errorf("active: %v", got)
		}
		if got := gathered(t, reg, "attend_silenced_windows_total"); got != 2 {
			t.Errorf("silenced: %v", got)
		}
		var one silence
		w.get("/v1/silences/"+s.ID).want(http.StatusOK, &one)
		want := s
		want.Active, want.Hid.Windows, want.Hid.Events = false, 2, 2
		if diff := cmp.Diff(want, one); diff != "" || s.Who != "ann" || *s.Until != s.Since+1000 || !s.Active {
			t.Errorf("made as %+v, then (-want +got):\n%s", s, diff)
		}
	})
}

// One that is ended ends behind the instant at which it was ended, for good.
func TestSilences_AreEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.decides()
		w.who = access.NewPrincipal(access.Grant{Name: "ann", Rights: access.Rights()})
		var s, ended silence
		w.do(http.MethodPost, "/v1/silences", `{"scope":"*","event":"done.*","until":"2100-01-01T00:00:00Z","includeFlush":true,"why":"x"}`).want(http.StatusCreated, &s)
		time.Sleep(time.Hour) //arch:sleep the bubble's clock
		w.wants("a name that matches", "skip", w.happens("a", "done.1"))
		w.happens("slow", "done.2", "done")
		time.Sleep(5 * time.Millisecond) //arch:sleep the bubble's clock
		w.wants("one that does not, beside it", "queue", w.happens("slow"))
		w.who = access.NewPrincipal(access.Grant{Name: "bob", Rights: access.Rights()})
		w.do(http.MethodDelete, "/v1/silences/"+s.ID, "").want(http.StatusOK, &ended)
		w.wants("due at the instant of the end", "skip skip", w.happens("a", "done.3"))
		time.Sleep(time.Millisecond) //arch:sleep the bubble's clock
		w.wants("a millisecond later", "skip skip queue", w.happens("a", "done.4"))
		if ended.Active || ended.EndedBy == nil || *ended.EndedBy != "bob" || ended.Who != "ann" || *ended.Until != s.Since+3_600_006 {
			t.Errorf("ended as %+v", ended)
		}
		var again silence
		w.do(http.MethodDelete, "/v1/silences/"+s.ID, "").want(http.StatusOK, &again)
		ended.Hid.Windows, ended.Hid.Events = 2, 2
		if diff := cmp.Diff(ended, again); diff != "" {
			t.Errorf("ended again (-first +second):\n%s", diff)
		}
	})
}

// What is asked is told to be wrong, where, and how it should be.
func TestSilences_Mistakes(t *testing.T) {
	w := newWorld(t)
	for body, want := range map[string]string{
		`{"forMs":1,"why":"x"}`:                                            "scope is missing",
		`{"scope":"a","forMs":1}`:                                          "why is missing",
		`{"scope":"a","forMs":1,"why":" "}`:                                "why is missing",
		`{"scope":"a","why":"x"}`:                                          "until is missing",
		`{"scope":"a","why":"x","forMs":0}`:                                "forMs is 0",
		`{"scope":"a","why":"x","forMs":9007199254740991}`:                 "a hundred years",
		`{"scope":"a","why":"x","forMs":1,"until":1}`:                      "both given",
		`{"scope":"a","why":"x","until":1}`:                                "has passed",
		`{"scope":"a","why":"x","until":9007199254740991}`:                 "a hundred years",
		`{"scope":"a","why":"x","until":"tomorrow"}`:                       "must be Unix milliseconds",
		`{"scope":"a","why":"x","until":1.5}`:                              "must be Unix milliseconds",
		`{"scope":"a\u0000","why":"x","forMs":1}`:                          "control character",
		`{"scope":"` + strings.Repeat("x", 513) + `","why":"x","forMs":1}`: "has 513 bytes",
		`{"scope":"a","why":"x","forMs":1,"who":"me"}`:                     "who",
	} {
		if got := w.do(http.MethodPost, "/v1/silences", body).problem(http.StatusBadRequest, "invalidBody"); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
	var list struct{ Silences []silence }
	if w.get("/v1/silences?all").want(http.StatusOK, &list); len(list.Silences) != 0 || list.Silences == nil {
		t.Errorf("silences: %v", list.Silences)
	}
}

// Who has some scopes sees and makes silences of those alone.
func TestSilences_OfOnesOwnScopes(t *testing.T) {
	w := newWorld(t)
	all := w.who
	for _, scope := range []string{"repo:*", "repo:acme/*", "*", "chat:1"} {
		w.do(http.MethodPost, "/v1/silences", fmt.Sprintf(`{"scope":%q,"forMs":60000,"why":"x"}`, scope)).want(http.StatusCreated, new(silence))
	}
	some := access.NewPrincipal(access.Grant{Name: "some", Rights: access.Rights(), Scopes: []string{"repo:acme/*"}})
	w.who = some
	var list struct{ Silences []silence }
	w.get("/v1/silences").want(http.StatusOK, &list)
	if len(list.Silences) != 1 || list.Silences[0].Scope != "repo:acme/*" {
		t.Errorf("it sees %+v", list.Silences)
	}
	w.do(http.MethodPost, "/v1/silences", `{"scope":"repo:*","forMs":60000,"why":"x"}`).problem(http.StatusForbidden, "forbidden")
	w.do(http.MethodPost, "/v1/silences", `{"scope":"repo:acme/shop?","forMs":60000,"why":"x"}`).want(http.StatusCreated, new(silence))
	w.who = all
	w.get("/v1/silences?limit=2").want(http.StatusOK, &list)
	if len(list.Silences) != 2 || list.Silences[0].Scope != "repo:acme/shop?" || list.Silences[1].Scope != "chat:1" {
		t.Errorf("the newest two: %+v", list.Silences)
	}
	others := list.Silences[1].ID
	w.who = some
	w.get("/v1/silences/"+others).problem(http.StatusNotFound, "notFound")
	w.do(http.MethodDelete, "/v1/silences/"+others, "").problem(http.StatusNotFound, "notFound")
}

// gathered reads the value of a metric without labels.
func gathered(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}
