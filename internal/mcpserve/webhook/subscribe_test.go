package webhook

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"attend/internal/engine"
	"attend/internal/feed"
	"attend/internal/guard"
	"attend/internal/store"
)

func TestSubscribe_Lifetimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		for _, c := range []struct {
			ask  TTL
			want time.Duration // 0 is for ever
		}{
			{TTL{}, time.Hour},
			{TTL{For: time.Millisecond}, time.Minute},
			{TTL{For: time.Minute - 1}, time.Minute},
			{TTL{For: 61 * time.Second}, 61 * time.Second},
			{TTL{For: 48 * time.Hour}, 24 * time.Hour},
			{TTL{Never: true}, 0},
		} {
			g := w.subscribe(callback, func(r *Request) { r.TTL = c.ask })
			want := engine.Time(0)
			if c.want != 0 {
				want = w.s.now() + engine.Time(c.want.Milliseconds())
			}
			if g.RefreshBefore != want {
				t.Errorf("%+v: until %d, want %d", c.ask, g.RefreshBefore, want)
			}
		}
		w.s.opt.Durable = false
		if g := w.subscribe(callback, func(r *Request) { r.TTL.Never = true }); g.RefreshBefore != w.s.now()+engine.Time(ttlCeiling.Milliseconds()) {
			t.Errorf("a store that forgets grants %+v", g)
		}
	})
}

// A refresh never moves a live subscription, whatever cursor it brings; one that
// has lapsed is delivered nothing, and starts anew at the cursor given.
func TestSubscribe_RefreshAndLapse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		first := w.subscribe(callback, func(r *Request) { r.TTL.For = 2 * time.Minute })
		w.feed.happen(3)
		pass(time.Minute)
		again := w.subscribe(callback, func(r *Request) { r.TTL.For, r.Start, r.Truncated = 2*time.Minute, "0", true })
		if again.ID != first.ID || again.Cursor != "3" || again.Truncated || again.Status == nil {
			t.Errorf("the refresh gives %+v", again)
		}
		pass(2 * time.Minute)
		w.feed.happen(2)
		pass(time.Minute)
		if got := len(w.net.posts(callback)); got != 3 {
			t.Errorf("%d posts, want none after it lapsed", got-3)
		}
		anew := w.subscribe(callback, func(r *Request) { r.Start, r.Truncated = "1", true })
		settle()
		if anew.ID != first.ID || anew.Cursor != "1" || !anew.Truncated || anew.Status != nil {
			t.Errorf("anew it is %+v", anew)
		}
		if got := w.net.ids(callback)[3:]; len(got) != 4 || got[0] != "e2" {
			t.Errorf("anew came %v", got)
		}
		pass(3 * time.Hour)
		if rows, err := w.store.Rows(t.Context(), store.SpaceWebhookProgress); err != nil || len(rows) != 0 {
			t.Errorf("what lapsed long ago has left %v, %v", rows, err)
		}
	})
}

// While a secret rotates both sign, the new one first; then the new one alone.
func TestSubscribe_Rotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, key := range []string{"", "a key of our own"} {
			w := newWorld(t, func(o *Options) { o.SecretKey = key })
			w.subscribe(callback, nil)
			w.subscribe(callback, func(r *Request) { r.Secret = secretOf(2) })
			w.subscribe(callback, func(r *Request) { r.Secret = secretOf(2) }) // the rotation goes on
			w.feed.happen(1)
			settle()
			pass(rotation)
			w.feed.happen(1)
			settle()
			posts := w.net.posts(callback)
			for i, keys := range [][][]byte{{keyOf(2), keyOf(1)}, {keyOf(2)}} {
				if want := signatureOf(posts[i].id, posts[i].at, posts[i].body, keys...); posts[i].signature != want {
					t.Errorf("signed %q, want %q", posts[i].signature, want)
				}
			}
		}
	})
}

func TestSubscribe_Refused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *Options) { o.MaxSubscriptions = 1 })
		secret := func(n int) string { return "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, n)) }
		for _, c := range []struct {
			url, secret, path string
		}{
			{"http://hooks.example.com/a", secretOf(1), "/delivery/url"},
			{"hooks.example.com/a", secretOf(1), "/delivery/url"},
			{"https:///a", secretOf(1), "/delivery/url"},
			{"https://u:p@hooks.example.com/a", secretOf(1), "/delivery/url"},
			{"https://hooks.example.com/a#b", secretOf(1), "/delivery/url"},
			{"https://hooks.example.com/" + strings.Repeat("a", maxURL), secretOf(1), "/delivery/url"},
			{callback, secret(23), "/delivery/secret"},
			{callback, secret(65), "/delivery/secret"},
			{callback, strings.TrimPrefix(secretOf(1), "whsec_"), "/delivery/secret"},
			{callback, "whsec_", "/delivery/secret"},
			{callback, "whsec_?" + secretOf(1)[7:], "/delivery/secret"},
		} {
			_, err := w.s.Subscribe(t.Context(), request(c.url, func(r *Request) { r.Secret = c.secret }))
			var invalid *InvalidError
			if !errors.As(err, &invalid) || invalid.Path != c.path || strings.Contains(err.Error(), c.secret[6:]) && len(c.secret) > 6 {
				t.Errorf("%s %s: %v, want it to be about %s", c.url, c.secret, err, c.path)
			}
		}
		w.net.check = &guard.AddressError{Host: "hooks.example.com"}
		_, err := w.s.Subscribe(t.Context(), request(callback, nil))
		if invalid := (*InvalidError)(nil); !errors.As(err, &invalid) || invalid.Reason != "address_not_allowed" {
			t.Errorf("an address that is not allowed: %v", err)
		}
		w.net.check = nil
		w.subscribe(callback, nil)
		_, err = w.s.Subscribe(t.Context(), request(callback+"b", nil))
		if limit := (*feed.LimitError)(nil); !errors.As(err, &limit) || limit.Max != 1 {
			t.Errorf("one too many: %v", err)
		}
	})
}

func TestUnsubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.subscribe(callback, func(r *Request) { r.Arguments = json.RawMessage(`{"a":1,"b":[2.0]}`) })
		w.feed.happen(1)
		settle()
		for _, c := range []struct {
			key  Key
			want error
		}{
			{Key{"ben", callback, "e", json.RawMessage(`{"a":1,"b":[2]}`)}, ErrNotFound},
			{Key{"ana", callback, "f", json.RawMessage(`{"a":1,"b":[2]}`)}, ErrNotFound},
			{Key{"ana", callback, "e", nil}, ErrNotFound},
			{Key{"ana", callback, "e", json.RawMessage(` {"b":[2], "a":1.0}`)}, nil},
			{Key{"ana", callback, "e", json.RawMessage(`{"a":1,"b":[2]}`)}, ErrNotFound},
		} {
			if err := w.s.Unsubscribe(t.Context(), c.key); !errors.Is(err, c.want) {
				t.Errorf("%+v: %v, want %v", c.key, err, c.want)
			}
		}
		w.feed.happen(5)
		pass(time.Minute)
		rows, err := w.store.Rows(t.Context(), store.SpaceWebhookProgress)
		if len(w.net.posts(callback)) != 1 || err != nil || len(rows) != 0 {
			t.Errorf("after the end: %v, rows %v, %v", w.net.ids(callback), rows, err)
		}
	})
}

// A daemon with another key, or none, cannot read the secrets and delivers
// nothing, which it says; the subscriber's next refresh mends it, from where it
// stood.
func TestSecrets_WrongKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := "the first key of all"
		w := newWorld(t, func(o *Options) { o.SecretKey = key })
		g := w.subscribe(callback, nil)
		row, err := w.store.Row(t.Context(), store.SpaceWebhook, g.ID)
		plain := base64.StdEncoding.EncodeToString(keyOf(1))
		if err != nil || strings.Contains(string(row), plain[:40]) {
			t.Fatalf("the row holds the secret: %s %v", row, err)
		}
		for _, other := range []string{"", "quite another key"} {
			w.stop()
			key = other
			w.start()
			w.feed.happen(1)
			pass(time.Minute)
			if n := len(w.net.posts(callback)); n != 0 || w.s.states()[stateLocked] != 1 {
				t.Fatalf("with key %q: %d posts, states %v", other, n, w.s.states())
			}
		}
		w.subscribe(callback, nil)
		settle()
		if got := w.net.ids(callback); len(got) != 2 || w.s.states()[stateActive] != 1 {
			t.Errorf("after the refresh: %v, states %v", got, w.s.states())
		}
	})
}

// Two daemons share a store: the owner of the shard delivers what the other one
// has granted, and goes on where the other stood when it takes over.
func TestReplicas_OwnerDelivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *Options) { o.Shared = true })
		other := &world{t: t, store: w.store, fence: w.fence, net: &network{}, feed: w.feed, opt: w.opt}
		other.start()
		defer func() { other.stop() }()
		g := other.subscribe(callback, nil)
		w.feed.happen(3)
		pass(2 * time.Second)
		if len(w.net.posts(callback)) != 3 || len(other.net.posts(callback)) != 0 {
			t.Fatalf("the owner has posted %v, the other %v", w.net.ids(callback), other.net.ids(callback))
		}
		if again := other.subscribe(callback, nil); again.ID != g.ID || again.Cursor != "3" {
			t.Errorf("the other one says %+v", again)
		}
		w.owns.Store(false)
		other.owns.Store(true)
		pass(2 * time.Second)
		w.feed.happen(1)
		pass(2 * time.Second)
		if len(w.net.posts(callback)) != 3 || len(other.net.posts(callback)) != 1 {
			t.Errorf("after the take-over: %v and %v", w.net.ids(callback), other.net.ids(callback))
		}
		if err := w.s.Unsubscribe(t.Context(), request(callback, nil).Key); err != nil {
			t.Error(err)
		}
		pass(2 * time.Second)
		w.feed.happen(1)
		pass(2 * time.Second)
		if len(other.net.posts(callback)) != 1 {
			t.Errorf("after the end: %v", other.net.ids(callback))
		}
	})
}

func TestConsent_Covers(t *testing.T) {
	for _, c := range []struct {
		prefix, url string
		want        bool
	}{
		{"https://a.example/hooks/", "https://a.example/hooks/x", true},
		{"https://a.example/hooks", "https://a.example/hooks/x?y=1", true},
		{"https://a.example/hooks", "https://a.example/hooks", true},
		{"https://a.example", "https://A.example/anything", true},
		{"https://a.example/", "https://a.example", true},
		{"https://a.example/hooks", "https://a.example/hooksmith", false},
		{"https://a.example/hooks/", "https://a.example/hooks/../admin", false},
		{"https://a.example/hooks/", "https://a.example/hooks/%2e%2e/admin", false},
		{"https://a.example/hooks/", "https://a.example/hooks/..%2fadmin", false},
		{"https://a.example/hooks/", "https://a.example:8443/hooks/x", false},
		{"https://a.example/hooks/", "https://b.example/hooks/x", false},
	} {
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		if got := listed(c.prefix, u); got != c.want {
			t.Errorf("%s covers %s: %v, want %v", c.prefix, c.url, got, c.want)
		}
	}
}
