package access_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"attend/internal/access"
)

func TestPrincipal_May(t *testing.T) {
	all := access.NewPrincipal(access.Grant{Name: "all", Rights: access.Rights()})
	some := access.NewPrincipal(access.Grant{
		Name: "some", Rights: []string{access.Read}, Scopes: []string{"repo:*", "chat:1"}, Fields: []string{"shop"}, Agents: []string{"bot-*"},
	})
	for _, c := range []struct {
		what string
		got  bool
		want bool
	}{
		{"a right everywhere", all.May(access.Admin, "any"), true},
		{"the right itself", some.May(access.Read, ""), true},
		{"in a scope that matches", some.May(access.Read, "repo:a/b"), true},
		{"in one by its name", some.May(access.Read, "chat:1"), true},
		{"in one whose name begins so", some.May(access.Read, "chat:12"), false},
		{"in another", some.May(access.Read, "ops"), false},
		{"another right", some.May(access.Ingest, "repo:a"), false},
		{"a right that there is not", all.May("root", ""), false},
		{"to read a Field", some.MayField("shop", false), true},
		{"to change it", some.MayField("shop", true), false},
		{"to read another", some.MayField("shops", false), false},
		{"to change any", all.MayField("shops", true), true},
		{"to speak for one that matches", some.SpeaksFor()("bot-7"), true},
		{"to speak for another", some.SpeaksFor()("ann"), false},
		{"to speak for nobody", some.SpeaksFor()(""), false},
		{"to see a scope", some.Visible()("repo:x"), true},
		{"to see another", some.Visible()("ops"), false},
		{"to read every scope", access.NewPrincipal(access.Grant{Rights: []string{access.Read}, Scopes: []string{"ops", "*"}}).ReadsAll(), true},
		{"to read every scope, with a pattern", some.ReadsAll(), false},
		{"to read every scope, without the right", access.NewPrincipal(access.Grant{Rights: []string{access.Ingest}}).ReadsAll(), false},
		{"its own consumer", some.Owns("some"), true},
		{"one from before there were tokens", some.Owns(""), true},
		{"another's", some.Owns("all"), false},
		{"another's, as an administrator", all.Owns("some"), true},
		{"anonymous: a right of everybody", access.Anonymous(false).May(access.Ingest, "x"), true},
		{"anonymous: not that of an administrator", access.Anonymous(false).May(access.Admin, ""), false},
		{"anonymous: over a socket that too", access.Anonymous(true).May(access.Admin, ""), true},
		{"anonymous: any consumer", access.Anonymous(false).Owns("some"), true},
		{"nobody", access.From(context.Background()).May(access.Read, ""), false},
	} {
		if c.got != c.want {
			t.Errorf("%s: %t", c.what, c.got)
		}
	}
	if all.Visible() != nil || all.SpeaksFor() != nil {
		t.Error("whoever sees everything is asked about each")
	}
	if p := access.From(access.With(t.Context(), some)); p != some {
		t.Errorf("the context gives back %v", p.Name)
	}
}

func token(name string, expires time.Time) access.Token {
	return access.Token{
		Grant: access.Grant{Name: name, Rights: access.Rights(), Scopes: []string{"*"}, Expires: expires},
		Sum:   access.SumOf("token of " + name),
	}
}

func TestTokens_Find(t *testing.T) {
	tokens := access.NewTokens([]access.Token{token("a", time.Time{}), token("b", time.Time{}), token("c", time.Time{})})
	defer tokens.Stop()
	for _, name := range []string{"a", "b", "c"} {
		if p, err := tokens.Find("token of " + name); err != nil || p == nil || p.Name != name {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
	for _, wrong := range []string{"", "token of ", "token of d", "token of a "} {
		if p, err := tokens.Find(wrong); p != nil || err != nil {
			t.Errorf("%q: %v, %v", wrong, p, err)
		}
	}
	if !access.NewTokens(nil).Empty() || tokens.Empty() {
		t.Error("it does not know whether there are any")
	}
}

func TestTokens_EndWhenTheyExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := access.NewTokens([]access.Token{token("brief", time.Now().Add(time.Hour)), token("lasting", time.Time{})})
		defer tokens.Stop()
		p, err := tokens.Find("token of brief")
		if err != nil || !p.May(access.Read, "x") || !p.Visible()("x") {
			t.Fatalf("before: %v", err)
		}
		ctx, stop := p.Until(t.Context())
		defer stop()
		time.Sleep(time.Hour - time.Nanosecond) //arch:sleep the bubble's clock
		synctest.Wait()
		if ctx.Err() != nil || !p.May(access.Read, "") {
			t.Error("it ends too early")
		}
		time.Sleep(time.Nanosecond) //arch:sleep the bubble's clock
		synctest.Wait()
		if !errors.Is(context.Cause(ctx), access.ErrRevoked) {
			t.Errorf("the context ends with %v", context.Cause(ctx))
		}
		if p.May(access.Read, "") || p.MayField("default", false) || p.Visible()("x") {
			t.Error("it may go on")
		}
		if _, err := tokens.Find("token of brief"); !errors.Is(err, access.ErrRevoked) {
			t.Errorf("it is found: %v", err)
		}
		if p, err := tokens.Find("token of lasting"); err != nil || !p.May(access.Read, "") {
			t.Errorf("another ends with it: %v", err)
		}
	})
}

func TestTokens_Revoke(t *testing.T) {
	tokens := access.NewTokens([]access.Token{token("a", time.Time{}), token("b", time.Now().Add(time.Hour))})
	defer tokens.Stop()
	p, _ := tokens.Find("token of b")
	tokens.Revoke("nobody")
	tokens.Revoke("b")
	tokens.Revoke("b")
	<-p.Revoked()
	if _, err := tokens.Find("token of b"); !errors.Is(err, access.ErrRevoked) {
		t.Errorf("got %v", err)
	}
	if _, err := tokens.Find("token of a"); err != nil {
		t.Errorf("another's: %v", err)
	}
}

func TestSum(t *testing.T) {
	sum := access.SumOf("open sesame")
	back, err := access.ParseSum(sum.Hash())
	if err != nil || back != sum {
		t.Fatalf("%v", err)
	}
	secret := strings.TrimPrefix(sum.Hash(), "sha256:")
	encoded, err := json.Marshal(access.Token{Sum: sum})
	if err != nil {
		t.Fatal(err)
	}
	shown := string(encoded)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		shown += fmt.Sprintf(verb, sum) + fmt.Sprintf(verb, access.Token{Sum: sum})
	}
	if strings.Contains(shown, secret[:8]) || !strings.Contains(shown, "[redacted]") {
		t.Errorf("it is shown: %s", shown)
	}
	for text, want := range map[string]string{
		secret:                        "must begin with sha256:",
		"sha256:" + secret[1:]:        "has 63 characters",
		"sha256:" + secret + "00":     "has 66 characters",
		"sha256:g" + secret[1:]:       "is no hexadecimal digit",
		"SHA256:" + secret:            "must begin with",
		"sha256:" + secret[:60] + "=": "has 61",
	} {
		if _, err := access.ParseSum(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret[1:9]) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestBound(t *testing.T) {
	b := access.NewBound(2)
	first, _ := b.Enter("a")
	_, ok := b.Enter("a")
	if _, more := b.Enter("a"); !ok || more {
		t.Errorf("the second %t, the third %t", ok, more)
	}
	if _, ok := b.Enter("b"); !ok || b.Count() != 3 || b.Max() != 2 {
		t.Errorf("another's place is gone; %d of %d", b.Count(), b.Max())
	}
	first()
	if _, ok := b.Enter("a"); !ok {
		t.Error("a place that was given back is gone")
	}
}
