package webhook

import (
	"bytes"
	"encoding/base64"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"attend/internal/store"
)

// holds tells whether a subscription's row holds a secret as it is.
func (w *world) holds(id string, secret []byte) bool {
	w.t.Helper()
	row, err := w.store.Row(w.t.Context(), store.SpaceWebhook, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.Contains(string(row), base64.StdEncoding.EncodeToString(secret)[:40])
}

// Secrets that were stored as they are get encrypted as soon as a daemon with a
// key owns them, the ones before too, and go on signing.
func TestSecrets_KeyComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := ""
		var logged bytes.Buffer
		w := newWorld(t, func(o *Options) {
			o.SecretKey, o.Logger = key, slog.New(slog.NewTextHandler(&logged, nil))
		})
		g := w.subscribe(callback, nil)
		w.subscribe(callback, func(r *Request) { r.Secret = secretOf(2) })
		if !w.holds(g.ID, keyOf(1)) || !w.holds(g.ID, keyOf(2)) || strings.Count(logged.String(), "ATTEND_SECRET_KEY") != 1 {
			t.Fatalf("without a key the row does not hold the secrets, or it was not said: %s", &logged)
		}
		w.stop()
		logged.Reset()
		key = "a key of our own"
		w.start()
		pass(2 * time.Second)
		if w.holds(g.ID, keyOf(1)) || w.holds(g.ID, keyOf(2)) {
			t.Error("the row still holds a secret as it is")
		}
		w.feed.happen(1)
		pass(time.Second)
		posts := w.net.posts(callback)
		if len(posts) != 1 || posts[0].signature != signatureOf(posts[0].id, posts[0].at, posts[0].body, keyOf(2), keyOf(1)) {
			t.Errorf("posted: %+v", posts)
		}
		w.subscribe(callback, func(r *Request) { r.Secret = secretOf(2) })
		if strings.Contains(logged.String(), "set ATTEND_SECRET_KEY") {
			t.Errorf("it is set, and the log says: %s", &logged)
		}
	})
}

// A refresh by a daemon that owns no shard encrypts what it writes, the same
// secret too.
func TestSecrets_RefreshEncrypts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := ""
		w := newWorld(t, func(o *Options) { o.SecretKey = key })
		g := w.subscribe(callback, nil)
		w.stop()
		key = "a key of our own"
		w.owns.Store(false)
		w.start()
		pass(2 * time.Second)
		if !w.holds(g.ID, keyOf(1)) {
			t.Error("one that does not own the shard has written the row")
		}
		w.subscribe(callback, nil)
		if w.holds(g.ID, keyOf(1)) {
			t.Error("the row still holds the secret as it is")
		}
	})
}

// Each secret before signs until its own ten minutes are over, four at most; one
// that comes back is no longer one before.
func TestSubscribe_RotationsOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, key := range []string{"", "a key of our own"} {
			w := newWorld(t, func(o *Options) { o.SecretKey = key })
			signedWith := func(fills ...byte) {
				t.Helper()
				w.feed.happen(1)
				settle()
				var keys [][]byte
				for _, fill := range fills {
					keys = append(keys, keyOf(fill))
				}
				posts := w.net.posts(callback)
				last := posts[len(posts)-1]
				if want := signatureOf(last.id, last.at, last.body, keys...); last.signature != want {
					t.Errorf("signed %q, want %q", last.signature, want)
				}
			}
			rotate := func(fill byte) {
				w.subscribe(callback, func(r *Request) { r.Secret, r.TTL.Never = secretOf(fill), true })
			}
			rotate(1)
			rotate(2)
			pass(4 * time.Minute)
			rotate(3)
			signedWith(3, 2, 1)
			w.stop()
			w.start() // they are stored
			pass(time.Second)
			signedWith(3, 2, 1)
			pass(6 * time.Minute)
			signedWith(3, 2)
			pass(4 * time.Minute)
			signedWith(3)
			for _, fill := range []byte{4, 5, 6, 7, 8} {
				rotate(fill)
			}
			signedWith(8, 7, 6, 5, 4)
			rotate(6)
			signedWith(6, 8, 7, 5, 4)
		}
	})
}

// A row of an older version holds one secret before at most.
func TestGrant_OldRow(t *testing.T) {
	g, err := decodeGrant([]byte(`{"format":1,"id":"sub_a","secret":{"data":"Ag=="},"old":{"data":"AQ=="},"oldUntil":600000,"expires":5,"created":1,"life":"l","start":"0","consent":"list"}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]former{{sealed{Data: []byte{1}}, 600_000}}, g.Former); diff != "" || g.Old != nil {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
