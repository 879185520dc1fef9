package engine_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"testing"

	"attend/internal/engine"
)

// The vectors are worked out here a second time, from the words of the design:
// ids derive from what they name, so they are the same in every store, and a
// change of one would break every reader that keeps them.

// hashed is the first 16 bytes of the SHA-256 of length-prefixed strings and
// big-endian numbers.
func hashed(parts ...any) []byte {
	h := sha256.New()
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			_ = binary.Write(h, binary.BigEndian, int64(len(p)))
			h.Write([]byte(p))
		case int:
			_ = binary.Write(h, binary.BigEndian, int64(p))
		case engine.Digest:
			h.Write(p[:])
		}
	}
	return h.Sum(nil)
}

func TestWindowID(t *testing.T) {
	a := engine.Member{Position: 7, SeenAt: 1000, Digest: engine.DigestOf("a"), Kind: engine.Closing, Name: "x"}
	b := engine.Member{Position: 9, SeenAt: 2000, Digest: engine.DigestOf("b"), Kind: engine.Flush}
	id := engine.WindowID("repo:x", engine.Members{a, b})
	if want := hex.EncodeToString(hashed("window", "repo:x", 1000, a.Digest, b.Digest)[:16]); id != want {
		t.Errorf("got %s, want %s", id, want)
	}
	if was := "4af6323a9ea06f341f38f4ecded65e3e"; id != was {
		t.Errorf("the vector has changed: %s, was %s", id, was)
	}
	for name, other := range map[string]string{
		"another scope":        engine.WindowID("repo:y", engine.Members{a, b}),
		"another order":        engine.WindowID("repo:x", engine.Members{b, a}),
		"fewer events":         engine.WindowID("repo:x", engine.Members{a}),
		"the same a week on":   engine.WindowID("repo:x", engine.Members{{SeenAt: 604_801_000, Digest: a.Digest}, b}),
		"no events, no panics": engine.WindowID("repo:x", nil),
	} {
		if other == id {
			t.Errorf("%s has the same id", name)
		}
	}
	// Neither place in the log, nor name, nor kind is in it.
	a.Position, a.Name, a.Kind, a.Policy = 70, "y", engine.Passive, 5
	if engine.WindowID("repo:x", engine.Members{a, b}) != id {
		t.Error("the id depends on more than scope, ids and first stamp")
	}
}

func TestDeadLetterID(t *testing.T) {
	id := engine.DeadLetterID("w", engine.StageJudge, 1)
	if want := hex.EncodeToString(hashed("deadLetter", "w", "judge", 1)[:16]); id != want {
		t.Errorf("got %s, want %s", id, want)
	}
	if id == engine.DeadLetterID("w", engine.StageJudge, 2) || id == engine.DeadLetterID("w", engine.StageSink, 1) {
		t.Error("a window's dead letters share an id")
	}
}

// Jitter is in [0, 1), spread evenly, and the same for the same attempt.
func TestJitter(t *testing.T) {
	if want := float64(binary.BigEndian.Uint64(hashed("jitter", "w", 3))>>11) / (1 << 53); engine.Jitter("w", 3) != want {
		t.Errorf("got %v, want %v", engine.Jitter("w", 3), want)
	}
	sum, n := 0.0, 10_000
	for i := range n {
		j := engine.Jitter("w", i)
		if j < 0 || j >= 1 {
			t.Fatalf("attempt %d: %v", i, j)
		}
		sum += j
	}
	if mean := sum / float64(n); math.Abs(mean-0.5) > 0.01 {
		t.Errorf("mean %v", mean)
	}
}

func TestDigest(t *testing.T) {
	d := engine.DigestOf("")
	text, err := d.MarshalText()
	if err != nil || string(text) != "e3b0c44298fc1c149afbf4c8996fb924" { // SHA-256 of nothing
		t.Fatalf("%s, %v", text, err)
	}
	var back engine.Digest
	if err := back.UnmarshalText(text); err != nil || back != d {
		t.Errorf("%v, %v", back, err)
	}
	for _, bad := range []string{"", "e3", "zz" + string(text[2:]), string(text) + "00"} {
		if err := back.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// Every shard is hit, and a key always hits the same.
func TestShard(t *testing.T) {
	hit := make(map[int]bool)
	for i := range 20_000 {
		key := string(rune('a'+i%26)) + hex.EncodeToString([]byte{byte(i), byte(i >> 8)})
		s := engine.Shard(key)
		if s < 0 || s >= engine.Shards || s != engine.Shard(key) {
			t.Fatalf("%q: %d", key, s)
		}
		hit[s] = true
	}
	if len(hit) != engine.Shards {
		t.Errorf("%d of %d shards are hit", len(hit), engine.Shards)
	}
}
