package hooks

import (
	"strings"
	"testing"
)

// By what a sender is known stands nowhere in what a mapping gives.
func TestMapping_SecretsAreNotShown(t *testing.T) {
	m := Mapping{Scope: `"s"`, Name: `"n"`, Data: "headers"}
	secrets := []string{"Cookie", "a-cookie", "Proxy-Authorization", "a-proxy", "X-More", "shown"}
	w := newWorld(t, mapped(m))
	w.post("any", "{}", asJSON(append(bearer(), secrets...)...)...).want(t, 200, "")
	h := signing(Signature{Header: "X-Sig"}, "key")
	h.Event = m
	signs := newWorld(t, h)
	signs.post("any", "{}", asJSON(append(secrets, "X-Sig", signed("key", "{}"))...)...).want(t, 200, "")
	for _, e := range append(w.taken, signs.taken...) {
		if got := string(e.Data); got != `{"content-type":"application/json","x-more":"shown"}` {
			t.Errorf("data %s", got)
		}
	}
	m.Data, m.Text = "", "headers.authorization"
	w = newWorld(t, mapped(m))
	if got := w.post("any", "{}", asJSON(bearer()...)...).want(t, 422, "mappingFailed"); strings.Contains(got.Body.String(), token) {
		t.Errorf("answer %s", got.Body)
	}
}

// The log says what is wrong with a request of a known sender, and at debug why
// another was not believed; neither holds a secret, nor ever gets long.
func TestServe_TheLogSaysWhy(t *testing.T) {
	w := newWorld(t, mapped(simple()), gitHubHook(), alertsHook(""))
	for _, c := range []struct {
		want string
		post func()
	}{
		{`hook=any code=mappingFailed detail="event.name there is no such key: name`, func() { w.post("any", `{"scope":"a"}`, asJSON(bearer()...)...) }},
		{`hook=am events=2 first.event=1 first.error="alerts[0]: status is neither`, func() { w.notify(`{"alerts":[{},{}]}`) }},
		{`level=DEBUG msg="a request to a hook is not believed" hook=any why="it has no header Authorization`, func() { w.post("any", `{}`) }},
		{`hook=any why="its header Authorization is of another scheme"`, func() { w.post("any", `{}`, "Authorization", "Basic "+token) }},
		{`hook=any why="what it bears is not`, func() { w.post("any", `{}`, "Authorization", "Bearer "+token+"x") }},
		{`hook=gh why="it has no signature`, func() { w.post("gh", `{}`) }},
		{`hook=gh why="its signature is of another`, func() { w.post("gh", `{}`, "X-Hub-Signature-256", "sha256="+signed("x")) }},
		{`detail="event.scope there is no such key: ` + strings.Repeat("x", 200), func() {
			long := mapped(Mapping{Scope: "body." + strings.Repeat("x", 5000), Name: `"n"`})
			if err := w.service.Replace([]Hook{long}); err != nil {
				t.Fatal(err)
			}
			w.post("any", `{}`, asJSON(bearer()...)...)
		}},
	} {
		w.log.Reset()
		c.post()
		if got := w.log.String(); !strings.Contains(got, c.want) || strings.Contains(got, token) || strings.Contains(got, gitHubSecret) || len(got) > 600 {
			t.Errorf("the log is %.1000s\nwant %s", got, c.want)
		}
	}
}
