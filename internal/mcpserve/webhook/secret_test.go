package webhook

import (
	"bytes"
	"encoding/base64"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
